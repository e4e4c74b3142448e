//go:build lab && linux

package promises

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// request is what the API server notes of one.
type request struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	SourceIPs  []string
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		Resource, Namespace, Name string
	} `json:"objectRef"`
	ResponseStatus struct {
		Code    int
		Message string
	} `json:"responseStatus"`
}

// requests are what Penstock's processes have asked of the API server in all of the tests, in order.
func (p place) requests() (all []request) {
	p.Helper()
	file, err := os.Open(running.AuditLog("lab1"))
	if err != nil {
		p.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line may be half written
		}
		if r.User.Username == "system:serviceaccount:"+system+":penstock" {
			all = append(all, r)
		}
	}
	if err := lines.Err(); err != nil {
		p.Fatal(err)
	}
	return all
}

// onlyTheLeaderWrites reads in what Penstock asked of the API server that nobody wrote but who had taken the Lease last. Processes are
// known by their addresses. Each keeps the authority's Secret, and has tokens reviewed.
func onlyTheLeaderWrites(p place) {
	leader, leaders, writes := "", map[string]bool{}, 0
	for _, r := range p.requests() {
		if len(r.SourceIPs) == 0 || r.ResponseStatus.Code >= 300 || !slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) {
			continue
		}
		switch who := r.SourceIPs[0]; r.ObjectRef.Resource {
		case "leases":
			leader = who
			leaders[who] = true
		case "secrets", "tokenreviews":
		default:
			writes++
			if who != leader {
				p.Errorf("%s does not lead, %s does, and yet: %s %s", who, leader, r.Verb, r.RequestURI)
			}
		}
	}
	if writes == 0 || len(leaders) < 2 {
		p.Errorf("%d writes while %v led: this says nothing", writes, leaders)
	}
}

// permissionsSuffice reads what Penstock asked of the API server in all of the tests: it was refused nothing, and no Secret was
// read that no Gateway names.
func permissionsSuffice(p place) {
	requests, secrets := p.requests(), 0
	for _, r := range requests {
		// A namespace that goes takes nothing new, whoever may write to it.
		if terminating := strings.Contains(r.ResponseStatus.Message, "being terminated"); r.ResponseStatus.Code == 401 || r.ResponseStatus.Code == 403 && !terminating {
			p.Errorf("refused: %s %s: %s", r.Verb, r.RequestURI, r.ResponseStatus.Message)
		}
		if r.ObjectRef.Resource != "secrets" {
			continue
		}
		secrets++
		u, err := url.Parse(r.RequestURI)
		if err != nil {
			p.Fatal(err)
		}
		own := r.ObjectRef.Namespace == system && (r.ObjectRef.Name == "penstock-ca" || r.Verb == "create")
		if !own && !strings.HasPrefix(u.Query().Get("fieldSelector"), "metadata.name=") {
			p.Errorf("Secrets that nobody named were asked for: %s %s", r.Verb, r.RequestURI)
		}
	}
	if len(requests) == 0 || secrets == 0 {
		p.Errorf("%d requests were noted, %d of them for Secrets", len(requests), secrets)
	}
	for _, pod := range p.processes() {
		log, err := p.CoreV1().Pods(system).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(context.WithoutCancel(p.Context()))
		if err != nil {
			p.Fatal(err)
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, "forbidden") {
				p.Errorf("%s: %s", pod.Name, line)
			}
		}
	}
}
