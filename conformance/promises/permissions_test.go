//go:build lab && linux

package promises

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
)

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

func (p place) requests() (all []request) {
	p.Helper()
	return p.requestsAfter(0)
}

// audited returns the current size of the API server's audit log, for requestsAfter.
func (p place) audited() int64 {
	p.Helper()
	info, err := os.Stat(running.AuditLog("lab1"))
	if err != nil {
		p.Fatal(err)
	}
	return info.Size()
}

// requestsAfter returns the requests of Penstock's processes to the API server, in order, without
// the first size bytes of the audit log.
func (p place) requestsAfter(size int64) (all []request) {
	p.Helper()
	file, err := os.Open(running.AuditLog("lab1"))
	if err == nil {
		_, err = file.Seek(size, io.SeekStart)
	}
	if err != nil {
		p.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line may be incomplete
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

// Between two changes of the Lease, only its holder writes. The source address identifies a
// process. Exceptions are the CA's Secret and TokenReviews, which every process writes.
func onlyLeaderWrites(p place) {
	leader, leaders, writes := "", map[string]bool{}, 0
	for _, r := range p.requests() {
		if len(r.SourceIPs) == 0 || r.ResponseStatus.Code >= 300 ||
			!slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) {
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
				p.Errorf("%s wrote while %s was the leader, want writes of the leader alone: %s %s", who, leader,
					r.Verb, r.RequestURI)
			}
		}
	}
	if writes == 0 || len(leaders) < 2 {
		p.Errorf("got %d writes by the leaders %v, want some, of at least 2", writes, leaders)
	}
}

// In all tests, no request of Penstock was forbidden, and Penstock read only Secrets that a Gateway
// names.
func permissionsSuffice(p place) {
	requests, secrets := p.requests(), 0
	for _, r := range requests {
		// A terminating namespace accepts no new objects, whatever the permissions.
		if terminating := strings.Contains(r.ResponseStatus.Message,
			"being terminated"); r.ResponseStatus.Code == 401 || r.ResponseStatus.Code == 403 && !terminating {
			p.Errorf("forbidden, want it allowed: %s %s: %s", r.Verb, r.RequestURI, r.ResponseStatus.Message)
		}
		if strings.Contains(r.ResponseStatus.Message, "ValidatingAdmissionPolicy") {
			p.Errorf("denied by the admission policy, want it allowed: %s %s: %s", r.Verb, r.RequestURI,
				r.ResponseStatus.Message)
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
			p.Errorf("Secrets were read, want only those that Gateways name: %s %s", r.Verb, r.RequestURI)
		}
	}
	if len(requests) == 0 || secrets == 0 {
		p.Errorf("the audit log has %d requests, %d of them for Secrets, want some of both", len(requests), secrets)
	}
	for _, pod := range p.processes() {
		log, err := p.PodLog(context.WithoutCancel(p.Context()), system, pod.Name, "", false)
		if err != nil {
			p.Fatal(err)
		}
		for line := range strings.Lines(log) {
			if strings.Contains(line, "forbidden") {
				p.Errorf("%s logged %s, want nothing forbidden", pod.Name, line)
			}
		}
	}
}
