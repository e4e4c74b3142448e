//go:build lab && linux

package promises

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// request is what the API server notes of one.
type request struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
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

// permissionsSuffice reads what Penstock asked of the API server in all of the tests: it was refused nothing, and no Secret was
// read that no Gateway names.
func permissionsSuffice(p place) {
	file, err := os.Open(running.AuditLog("lab1"))
	if err != nil {
		p.Fatal(err)
	}
	defer file.Close()
	requests, secrets := 0, 0
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // the last line may be half written
		}
		if r.User.Username != "system:serviceaccount:"+system+":penstock" {
			continue
		}
		requests++
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
	if err := lines.Err(); err != nil {
		p.Fatal(err)
	}
	if requests == 0 || secrets == 0 {
		p.Errorf("%d requests were noted, %d of them for Secrets", requests, secrets)
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
