package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

const (
	usageRequests = 400
	usageClients  = 8
	// Without messages, servers answer 400.
	usageFirst = `{"model": "llama", "messages": [{"role": "user", "content": "hi"}]`
)

const usagePolicy = `---
apiVersion: penstock.dev/v1alpha1
kind: AccessPolicy
metadata: {name: clients}
spec: {targetRefs: [{kind: Gateway, name: gw}], apiKeys: {}}
`

type metered struct {
	*gateway
	c     config
	ports []int
}

// measureUsage sends streams without a usage report, then requests with reports, which correct the
// estimates, then streams again.
func measureUsage(ctx context.Context, c config, out report) error {
	_, ports, stop, err := startServers(c, 2, "--prefix-caching", "--model", "llama")
	if err != nil {
		return err
	}
	defer stop()
	g, err := startGateway(c, routeObject("chat", "{path: {value: /}}")+poolObjects("chat", ports)+usagePolicy)
	if err != nil {
		return err
	}
	defer g.close()
	m := &metered{g, c, ports}
	r := rand.New(rand.NewPCG(1, 1))
	for _, part := range []struct {
		owner, name, rows string
		kinds             []string
	}{
		{"estimated", "estimated", "estimated_rows", []string{`"stream": true, `}},
		{"reported", "", "rows", []string{"", `"stream": true, "stream_options": {"include_usage": true}, `}},
		{"corrected", "corrected", "corrected_rows", []string{`"stream": true, `}},
	} {
		ratio, err := m.measure(ctx, r, part.owner, part.kinds)
		if err != nil {
			return fmt.Errorf("%s: %w", part.owner, err)
		}
		out("usage_true", part.name, max(ratio, 1/ratio))
		out("usage_true", part.rows, ratio)
	}
	return nil
}

func (m *metered) measure(ctx context.Context, r *rand.Rand, owner string, kinds []string) (float64, error) {
	made, err := exec.CommandContext(ctx, m.c.penstock, "keys", "create", owner, "-f", m.files).Output()
	if err != nil {
		return 0, err
	}
	key := strings.TrimSpace(string(made))
	if err := m.serves(ctx, func() error { return m.ask(ctx, key, usageFirst) }); err != nil {
		return 0, err
	}
	first, err := m.counted(ctx)
	if err != nil {
		return 0, err
	}
	var base, before float64
	if err := eventually(ctx, func() (err error) {
		if base, before, err = m.rows(owner); err == nil && before == 0 {
			err = errors.New("the first request is in no row")
		}
		return err
	}); err != nil {
		return 0, err
	}
	bodies := make(chan string, usageRequests)
	for i := range usageRequests {
		bodies <- fmt.Sprintf(`{"model": "llama", %s"max_tokens": %d, "messages": [{"role": "user", "content": %q}]`,
			kinds[i%len(kinds)], 10+r.IntN(200), words(r, 5+r.IntN(600)))
	}
	close(bodies)
	errs := make([]error, usageClients)
	var clients sync.WaitGroup
	for i := range usageClients {
		clients.Go(func() {
			for body := range bodies {
				errs[i] = errors.Join(errs[i], m.ask(ctx, key, body))
			}
		})
	}
	clients.Wait()
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	last, err := m.counted(ctx)
	if err != nil {
		return 0, err
	}
	var tokens float64
	err = eventually(ctx, func() error {
		now, requests, err := m.rows(owner)
		if tokens = now - base; err == nil && requests-before != usageRequests {
			err = fmt.Errorf("the rows have %g requests", requests-before)
		}
		return err
	})
	return tokens / (last - first), err
}

// words returns n words, which simulated servers count as tokens. A word has 4.3 bytes on average,
// like a token of English text.
func words(r *rand.Rand, n int) string {
	list := strings.Fields("the a of cat run and to it you that he for on as with his they at be this have from or " +
		"one had by model request server answer which token")
	var out []string
	for range n {
		out = append(out, list[r.IntN(len(list))])
	}
	return strings.Join(out, " ")
}

func (m *metered) ask(ctx context.Context, key, body string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+chatPath, bytes.NewReader([]byte(body+"}")))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+key)
	_, _, err = exchange(http.DefaultClient, req)
	return err
}

func (m *metered) counted(ctx context.Context) (sum float64, err error) {
	for _, port := range m.ports {
		_, page, err := get(ctx, http.DefaultClient, fmt.Sprintf("http://127.0.0.1:%d/metrics", port))
		if err != nil {
			return 0, err
		}
		for line := range strings.Lines(string(page)) {
			name, value, _ := strings.Cut(line, "{")
			if name == "vllm:prompt_tokens_total" || name == "vllm:generation_tokens_total" {
				n, err := strconv.ParseFloat(strings.TrimSpace(value[strings.LastIndexByte(value, ' ')+1:]), 64)
				if err != nil {
					return 0, err
				}
				sum += n
			}
		}
	}
	return sum, nil
}

func (m *metered) rows(owner string) (tokens, requests float64, err error) {
	cmd := exec.Command(m.c.penstock, "usage", "-f", m.files, "--state", m.state(), "--by", "owner", "-o", "json")
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return 0, 0, err
	}
	var answer struct {
		Rows []struct {
			Owner                   string
			Requests, Input, Output float64
		}
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, 0, err
	}
	for _, r := range answer.Rows {
		if r.Owner == "default/"+owner {
			return r.Input + r.Output, r.Requests, nil
		}
	}
	return 0, 0, nil
}

func (m *metered) state() string { return filepath.Join(filepath.Dir(m.files), "state") }
