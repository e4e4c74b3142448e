package peers

import (
	"fmt"
	"strings"
	"sync"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/addresses"
	"github.com/penstock-project/penstock/translator/model"
)

// Relays reports why picks of an import's remote picker fail, by pool and process, and publishes
// the reason for the leader.
type Relays struct {
	board *status.Board
	topic *channel.Topic
	down  func(pool objectid.Target, source, why string)

	mu       sync.Mutex
	pools    map[objectid.Target]*model.Pool
	troubles map[objectid.Target]picker.RelayFailure
}

type published struct {
	report.Report
	// NoAnswer is why the remote picker does not respond; "": picks fail for another reason.
	NoAnswer string `json:"noAnswer,omitempty"`
}

// NewRelays makes a Relays. down receives why a pool's remote picker does not respond; "": it
// responds again. source is "relay", or differs for each peer. down must not call the Relays.
func NewRelays(b *status.Board, c *channel.Channel, down func(pool objectid.Target, source, why string)) *Relays {
	r := &Relays{board: b, down: down, topic: c.Topic("relays"), pools: map[objectid.Target]*model.Pool{},
		troubles: map[objectid.Target]picker.RelayFailure{}}
	channel.NewMirror(r.topic, channel.MirrorConfig[published]{
		Decode: fromJSON[published],
		Changed: func(changes []channel.Change[published]) {
			for _, ch := range changes {
				pool, ok := objectid.ParseTarget(ch.Key)
				if !ok {
					continue
				}
				source, down := relaySource(pool)+" at "+ch.Peer, byRelay+" at "+ch.Peer
				if ch.Gone {
					b.Replace(source)
					r.noteDown(pool, down, "")
				} else {
					b.Replace(source, ch.Value.Report)
					r.noteDown(pool, down, ch.Value.NoAnswer)
				}
			}
		},
	})
	return r
}

const byRelay = "relay"

func (r *Relays) noteDown(pool objectid.Target, source, why string) {
	if r.down != nil {
		r.down(pool, source, why)
	}
}

// Follow updates the relayed pools. It must be called before the picker has them.
func (r *Relays) Follow(pools []translator.PickerPool, gone []objectid.Target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range gone {
		r.drop(name)
	}
	for _, pp := range pools {
		name := pp.Pool.Name
		if pp.Pool.Relay == nil {
			r.drop(name)
			continue
		}
		r.pools[name] = pp.Pool
		if t, ok := r.troubles[name]; ok {
			r.report(pp.Pool, t)
		}
	}
}

// The caller holds r.mu.
func (r *Relays) drop(name objectid.Target) {
	delete(r.pools, name)
	if _, ok := r.troubles[name]; ok {
		r.resolve(name)
	}
}

// The caller holds r.mu.
func (r *Relays) resolve(name objectid.Target) {
	delete(r.troubles, name)
	r.board.Replace(relaySource(name))
	r.noteDown(name, byRelay, "")
	r.topic.Retract(name.String())
}

// Trouble sets why a pool's picks fail. The zero t means that they succeed.
func (r *Relays) Trouble(name objectid.Target, t picker.RelayFailure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pool := r.pools[name]
	switch {
	case pool == nil:
	case t == (picker.RelayFailure{}):
		r.resolve(name)
	default:
		r.troubles[name] = t
		r.report(pool, t)
	}
}

func relaySource(pool objectid.Target) string { return status.Instance(status.Relay, pool.String()) }

// The caller holds r.mu.
func (r *Relays) report(pool *model.Pool, t picker.RelayFailure) {
	f := outsideFinding(pool, t)
	if t.NoAnswer != "" {
		f = unansweredFinding(pool, t.NoAnswer)
	}
	f.Severity, f.Owner = report.Error, pool.Ref
	rep := report.Report{Owner: pool.Ref, Findings: []report.Finding{f}}
	r.board.Replace(relaySource(pool.Name), rep)
	r.noteDown(pool.Name, byRelay, t.NoAnswer)
	r.topic.Publish(channel.Item{Key: pool.Name.String(), Value: toJSON(published{rep, t.NoAnswer})})
}

func unansweredFinding(pool *model.Pool, why string) report.Finding {
	relay := pool.Relay
	var at []string
	tls := false
	for _, a := range relay.Pickers {
		at = append(at, a.Addr.String())
		tls = tls || !a.Cleartext
	}
	fix := "see that it runs there and can be reached from here"
	switch {
	case tls && strings.Contains(why, extproc.ReasonCleartext):
		fix = "set appProtocol: kubernetes.io/h2c on the service's port"
	case tls && strings.Contains(why, extproc.ReasonHandshake):
		fix = "if it serves cleartext, as a Penstock's own picker does, set appProtocol: kubernetes.io/h2c on the " +
			"service's port"
	case !tls:
		fix += "; if it serves TLS, leave appProtocol: kubernetes.io/h2c out"
	}
	return report.Finding{
		Field: relay.Field + ".endpointPicker.service",
		Problem: fmt.Sprintf("cluster %s: its picker at %s cannot be asked: %s", relay.Member, strings.Join(at, ", "),
			why), Fix: fix,
	}
}

func outsideFinding(pool *model.Pool, t picker.RelayFailure) report.Finding {
	relay := pool.Relay
	if t.Denied != "" {
		return report.Finding{
			Field:   relay.Field,
			Problem: fmt.Sprintf("cluster %s: its picker named %s, which %s", relay.Member, t.OutOfRange, t.Denied),
			Fix:     addresses.Fix(t.Denied),
		}
	}
	declared := "any address except loopback, link-local and multicast ones"
	for i, list := range relay.Within {
		var texts []string
		for _, r := range list {
			texts = append(texts, r.String())
		}
		if i == 0 {
			declared = "addresses in " + strings.Join(texts, ", ")
		} else {
			declared += ", and also in " + strings.Join(texts, ", ")
		}
	}
	var ports []string
	for _, p := range pool.Ports {
		ports = append(ports, fmt.Sprint(p))
	}
	return report.Finding{
		Field: relay.Field,
		Problem: fmt.Sprintf("cluster %s: its picker named %s, which is not sent to: declared are %s, at port %s",
			relay.Member, t.OutOfRange, declared, strings.Join(ports, ", ")),
		Fix: "if its pods are there, write their range in podCIDRs and their port in targetPortNumber (or targetPorts)",
	}
}
