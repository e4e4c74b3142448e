package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/engine/processes"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// The conditions of a deployment: the reason of Ready is its phase.
const (
	ConditionAccepted = "Accepted"
	ConditionReady    = "Ready"
)

// The phases of a deployment.
const (
	pendingReason   = "Pending"
	deployingReason = "Deploying"
	downloadReason  = "ModelDownloading"
	RunningReason   = "Running"
	failedReason    = "Failed"
	pausedReason    = "Paused"
	idleReason      = "Asleep"
)

const (
	acceptedReason     = "Accepted"
	invalidReason      = "Invalid"
	nameConflictReason = "NameConflict"
	notSupportedReason = "NotSupported"

	lastGood = "; the last good version stays in use"
)

func (k *Keeper) report() {
	out := make([]report.Report, 0, len(k.entries))
	for _, id := range slices.Sorted(maps.Keys(k.entries)) {
		e := k.entries[id]
		ref := store.RefOf(store.ModelDeployments, id)
		r := report.Report{Owner: ref, Conditions: []report.Condition{k.accepted(e)}}
		phase, message, more := k.phase(id, e)
		if url := k.url(e); url != "" {
			message += "; serviceURL " + url
		}
		status := report.False
		if phase == RunningReason {
			status = report.True
		}
		r.Conditions = append(r.Conditions,
			report.Condition{Type: ConditionReady, Status: status, Reason: phase, Message: message})
		found := append(k.found(e), more...)
		found = append(found, k.overlaps(e)...)
		for _, f := range []*report.Finding{e.taken, e.conflict, e.model.finding, e.memory.finding} {
			if f != nil {
				found = append(found, *f)
			}
		}
		found = append(found, e.env.found...)
		for _, f := range found {
			f.Owner = ref
			r.Findings = append(r.Findings, f)
		}
		out = append(out, r)
		shown := phase
		if phase == downloadReason {
			shown += e.model.tenth()
		}
		if !k.supervised { // the first phase under supervision is new
			continue
		}
		if e.phase != shown && k.cfg.OnPhase != nil {
			k.cfg.OnPhase(id, phase, message)
		}
		e.phase = shown
	}
	k.cfg.Report(append(out, k.registryReports()...))
}

func (k *Keeper) accepted(e *entry) report.Condition {
	c := report.Condition{Type: ConditionAccepted, Status: report.True, Reason: acceptedReason}
	switch {
	case e.conflict != nil:
		c.Status, c.Reason, c.Message = report.False, nameConflictReason, e.conflict.Problem
	case e.taken != nil:
		c.Status, c.Reason, c.Message = report.False, nameConflictReason, e.taken.Problem+lastGood
	}
	for _, f := range k.found(e) {
		if f.Severity == report.Error {
			c.Status, c.Reason, c.Message = report.False, invalidReason, f.Field+": "+f.Problem
			if f.Field == fieldCluster {
				c.Reason = clusterNotFoundReason
			}
			if e.plan != nil {
				c.Message += lastGood
			}
			break
		}
	}
	return c
}

func (k *Keeper) phase(id string, e *entry) (phase, message string, found []report.Finding) {
	switch {
	case e.plan == nil || e.conflict != nil:
		return failedReason, k.accepted(e).Message, nil
	case e.plan.Replicas == 0:
		return pausedReason, "spec.replicas is 0", nil
	case k.unavailable != "":
		return failedReason, k.unavailable, []report.Finding{{Severity: report.Error, Problem: k.unavailable,
			Fix: "correct the state folder, or name another one with --state"}}
	case !k.supervised:
		return pendingReason, "this process starts no model servers: run penstock up", nil
	case e.missing != "" && !k.started(id, e):
		return failedReason, e.missing, []report.Finding{{Severity: report.Error, Field: "spec.engine.name",
			Problem: e.missing, Fix: "the deployment starts within a minute after the program is there"}}
	}
	if s, sleeps := k.saved.Stopped[id]; sleeps {
		return idleReason, s.Why + "; a request starts it", nil
	}
	if e.env.waits != "" && !k.started(id, e) {
		return pendingReason, e.env.waits, nil
	}
	if e.model.waits != "" && !k.started(id, e) {
		return e.model.phase()
	}
	if e.memory.blocks() && !k.started(id, e) {
		if f := e.memory.finding; f != nil {
			return failedReason, f.Problem, nil
		}
		return deployingReason, e.memory.waits, nil
	}
	return k.progress(id, e)
}

func (k *Keeper) progress(id string, e *entry) (phase, message string, found []report.Finding) {
	ready, waits, logs := 0, "", ""
	if e.missing != "" {
		found = append(found, report.Finding{Severity: report.Warning, Field: "spec.engine.name", Problem: e.missing,
			Fix: "the servers that run go on; one that ends, or that a change replaces, needs the program"})
	}
	var room *report.Finding // about a lack of room
	for _, replica := range e.instances {
		s, known := k.states[ProcessName(id, replica)]
		if f := k.assigned[ProcessName(id, replica)].finding; room == nil {
			room = f
		}
		_, retires := e.retiring[replica]
		switch {
		case !known || retires:
		case s.Phase == processes.Running:
			ready++
		case failing(s) && waits == "":
			waits, logs = fmt.Sprintf("server %d: %s", replica, e.lastWords(replica, s)), e.plan.Deployment.Name
			if replica > 0 {
				logs += fmt.Sprint(" --replica ", replica)
			}
		}
	}
	message = fmt.Sprintf("%d of %d servers of model %s are ready", ready, e.plan.Replicas, e.plan.ServedName)
	if change, f := e.change(); change != "" {
		message += "; " + change
		found = append(found, f...)
	}
	if waits != "" {
		found = append(found, report.Finding{Severity: report.Error, Field: "spec", Problem: waits,
			Fix: "see penstock logs " + logs})
		message += "; " + waits
	}
	if room != nil {
		if e.waiting == 0 || room.Severity == report.Error { // otherwise makeRoom makes room for the waiting request
			found = append(found, *room)
		}
		message += "; " + room.Problem
	}
	if used := k.used(id, e); used != "" {
		message += "; " + used
	}
	switch {
	case ready > 0:
		return RunningReason, message, found
	case waits != "":
		return failedReason, waits, found
	case room != nil && !k.started(id, e):
		if room.Severity == report.Error {
			return failedReason, room.Problem, found
		}
		return pendingReason, room.Problem, found
	}
	return deployingReason, message, found
}

// failing reports whether a user should see why a server is not ready. A server that fails
// repeatedly is failing while it starts, too. Otherwise each start would be a new phase.
func failing(s processes.State) bool {
	return s.Phase == processes.Waiting || s.Phase == processes.Failed || s.Phase == processes.Unresponsive ||
		s.Phase == processes.Starting && s.Failures > heldFailures
}

func (e *entry) change() (text string, found []report.Finding) {
	if len(e.old) > 0 {
		text = fmt.Sprintf("%d have the previous version", len(e.old))
	}
	if e.spare != "" {
		text += ", Waiting: " + e.spare
		found = append(found, report.Finding{Severity: report.Warning, Field: "spec.strategy",
			Problem: "the change waits for room beside the server that runs: " + e.spare,
			Fix:     "write Recreate, with which requests wait meanwhile; or make room"})
	}
	return text, found
}

func (k *Keeper) started(id string, e *entry) bool {
	for _, replica := range e.instances {
		if k.states[ProcessName(id, replica)].PID != 0 {
			return true
		}
	}
	return false
}

func (k *Keeper) url(e *entry) string {
	if e.plan == nil || e.conflict != nil {
		return ""
	}
	return e.plan.URL(func(id string) *gatewayv1.Gateway { return k.gateways[id] })
}

func (k *Keeper) overlaps(e *entry) (found []report.Finding) {
	if e.plan == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(k.routes)) {
		for _, claim := range e.plan.Overlaps(k.routes[id]) {
			found = append(found, report.Finding{Severity: report.Warning, Field: claim.Field,
				Problem: "HTTPRoute " + id + " matches model " + claim.Model + " at the same Gateway, so some " +
					"requests may go there",
				Fix: "write another name, or remove the model from the route"})
		}
	}
	return found
}

const (
	maxWords   = 400
	notRunning = "it does not run"
)

// lastWords caches words, and renews them only at Notable failures, because log lines may have
// times.
func (e *entry) lastWords(replica int, s processes.State) string {
	if e.words[replica] == "" || processes.Notable(s.Failures) {
		if e.words == nil {
			e.words = map[int]string{}
		}
		e.words[replica] = words(s)
	}
	return e.words[replica]
}

func words(s processes.State) string {
	text := strings.Join(strings.Fields(s.LastWords), " ")
	if len(text) > maxWords {
		text = "..." + strings.ToValidUTF8(text[len(text)-maxWords:], "")
	}
	reason := s.Reason
	if reason == "" {
		reason = notRunning
	}
	if text == "" {
		return reason
	}
	return reason + ": " + text
}

// Unsupported returns reports about deployments and registries on Kubernetes, and the deleted ones.
func Unsupported(changes []store.Change) (set []report.Report, gone []report.Ref) {
	for _, c := range changes {
		var ref report.Ref
		switch c.Table {
		case store.ModelDeployments.Kind():
			ref = store.RefOf(store.ModelDeployments, c.ID)
		case store.ModelRegistries.Kind():
			ref = store.RefOf(store.ModelRegistries, c.ID)
		default:
			continue
		}
		if c.Deleted {
			gone = append(gone, ref)
			continue
		}
		if c.Table == store.ModelRegistries.Kind() {
			set = append(set, unsupportedRegistry(ref))
			continue
		}
		const why = "Penstock starts model servers with penstock up only, not on Kubernetes"
		set = append(set, report.Report{Owner: ref,
			Conditions: []report.Condition{
				{Type: ConditionAccepted, Status: report.False, Reason: notSupportedReason, Message: why}},
			Findings: []report.Finding{{Severity: report.Error, Owner: ref, Problem: why,
				Fix: "write a Deployment, an InferencePool that selects its pods, and an HTTPRoute"}}})
	}
	return set, gone
}
