package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/holding"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// limitYAML limits the requests in flight at each server of the pool chat.
func limitYAML(inFlight int) string {
	return fmt.Sprintf(`apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: chat}
spec:
  targetRef: {name: chat}
  picker: {full: {inFlight: %d}}
`, inFlight)
}

// limited is a folder whose pool has a limit of requests in flight, and one server, which holds every GET.
func limited(t *testing.T, inFlight int) (port int, files map[string]string, server *holding.Server) {
	server = holding.Start(true)
	t.Cleanup(server.Close)
	port = freePort(t)
	files = chatFiles(port, server.Address())
	files["policy.yaml"] = limitYAML(inFlight)
	return port, files, server
}

// hold sends requests that the server holds. It returns their statuses as they come.
func hold(t *testing.T, url string, n int) <-chan int {
	ctx, cancel := context.WithCancel(t.Context())
	statuses := make(chan int, n)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
			if err != nil {
				statuses <- 0
				return
			}
			defer resp.Body.Close()
			statuses <- resp.StatusCode
			<-ctx.Done()
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
	return statuses
}

func TestEnvoy_KilledLeavesNoRequestInFlight(t *testing.T) {
	t.Parallel()
	port, files, server := limited(t, 4)
	s := up(t, files)
	answers(t, local(port), http.StatusOK)
	hold(t, local(port), 4)
	poll.Until(t, "four requests in flight", func() bool { return server.Held() == 4 })
	answers(t, local(port), http.StatusTooManyRequests)
	if err := syscall.Kill(s.envoys()[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	s.errs.expect(t, "Envoy died and will be restarted")
	answers(t, local(port), http.StatusOK)
}

// A request longer than any timeout of a lease still counts.
func TestLimit_CountsLongRequests(t *testing.T) {
	t.Parallel()
	port, files, server := limited(t, 1)
	up(t, files)
	answers(t, local(port), http.StatusOK)
	hold(t, local(port), 1)
	poll.Until(t, "a request in flight", func() bool { return server.Held() == 1 })
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); {
		if got, err := chat(t.Context(), local(port)); err != nil || got.status != http.StatusTooManyRequests {
			t.Fatalf("beside a request in flight: %d %v", got.status, err)
		}
	}
}

// Envoy reports that a request has ended up to 100 ms late.
func TestLimit_LateReportsCauseNo429(t *testing.T) {
	t.Parallel()
	port, files, _ := limited(t, 1)
	up(t, files)
	answers(t, local(port), http.StatusOK)
	for i := range 20 {
		if got, err := chat(t.Context(), local(port)); err != nil || got.status != http.StatusOK {
			t.Fatalf("request %d, one after the other: %d %v", i, got.status, err)
		}
	}
}

// twoProcesses serves the same files from two processes that are peers, to one Envoy.
func twoProcesses(t *testing.T, files map[string]string, port int) (sites []*site) {
	t.Helper()
	var xds, pickers []string
	for range 2 {
		xds, pickers = append(xds, fmt.Sprintf("127.0.0.1:%d", freePort(t))), append(pickers, fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	}
	for i := range 2 {
		s := prepare(t, files)
		s.run("serve", "--xds", xds[i], "--picker", pickers[i], "--picker-address", strings.Join(pickers, ","), "--peers", strings.Join(xds, ","))
		sites = append(sites, s)
	}
	for i, s := range sites {
		s.out.expect(t, "ADS at "+xds[i])
		s.errs.expect(t, "connected to a peer")
	}
	sites[0].attach(xds[0])
	answers(t, local(port), http.StatusOK)
	return sites
}

// An Envoy asks either of two processes, and each of its workers logs to either.
func TestLimit_CountsRequestsOfAllProcesses(t *testing.T) {
	t.Parallel()
	port, files, server := limited(t, 4)
	sites := twoProcesses(t, files, port)
	served, full := 0, 0
	for range 12 { // one after the other: between processes a count is some milliseconds old
		switch status := <-hold(t, local(port), 1); status {
		case http.StatusOK:
			served++
		case http.StatusTooManyRequests:
			full++
		default:
			t.Errorf("status %d", status)
		}
	}
	if served != 4 || full != 8 || server.Held() != 4 {
		t.Errorf("%d served, %d times 429; the limit is 4", served, full)
	}
	// The requests of a process that is gone are counted by the other one: its Envoy reports them there.
	if err := sites[1].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-sites[1].ended
	poll.Until(t, "the other process counts all requests in flight", func() bool {
		got, err := chat(t.Context(), local(port))
		return err == nil && got.status == http.StatusTooManyRequests && server.Held() == 4
	})
}
