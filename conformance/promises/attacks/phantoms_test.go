package attacks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/xds/xdstest/holding"
)

// heldPool starts a model server that holds every GET until its client gives up. It returns the
// server, and the objects of the Gateway victim, of the server's pool, and of a route to the pool
// from the site's Gateway and victim. The pool allows four requests at a time for each server.
func heldPool(t *testing.T, port int) (objects string, server *holding.Server) {
	server = holding.Start(false)
	t.Cleanup(server.Close)
	return gatewayObject("victim", port) + poolObjects("held", "/held", []string{"gw", "victim"}, at(server.Server)) +
		limitObject("held"), server
}

// full returns nil if the pool of heldPool answers 429 through the site's Gateway.
func full(s *site) error {
	if err := s.ask(http.MethodPost, "/held", ""); err == nil || !strings.Contains(err.Error(), "429") {
		return fmt.Errorf("the pool is not full: %w", errors.Join(err, errAnswered))
	}
	return nil
}

// When an Envoy is killed, frozen or cut off, its requests are no longer counted as in flight.
// Other Gateways then find the pool idle.
func TestLimit_EnvoyThatIsGoneLeavesNoPhantoms(t *testing.T) {
	for name, end := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "frozen": syscall.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			s := start(t, nil)
			port := s.Port()
			objects, server := heldPool(t, port)
			s.Write("held.yaml", objects)
			victim, err := process.StartEnvoy(binaries.penstock, binaries.envoy, s.dir, "victim", "--gateway",
				"default/victim", "--xds", s.ads,
				"--admin", "unix:"+filepath.Join(s.dir, "victim.sock"), "--concurrency", "1", "--drain-time", "1s")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = victim.Stop(time.Second) }) // fails if the process has ended
			traffic := s.traffic()
			ctx, cancel := context.WithCancel(t.Context())
			var clients sync.WaitGroup
			t.Cleanup(func() { cancel(); clients.Wait() })
			s.Eventually("the other Gateway serves", func() error {
				resp, err := http.Post("http://"+local(port)+"/held", "", nil)
				if err == nil && resp.StatusCode != http.StatusOK {
					err = errors.Join(errors.New(resp.Status), resp.Body.Close())
				}
				return err
			})
			for range 4 {
				clients.Go(func() {
					req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+local(port)+"/held", nil)
					if resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
						_ = resp.Body.Close()
					}
				})
			}
			s.Eventually("four requests are in flight, and the pool is full", func() error {
				if n := server.Held(); n != 4 {
					return fmt.Errorf("%d are held, want 4", n)
				}
				return full(s)
			})
			victim.Signal(end)
			s.Eventually("the pool serves the other Gateway",
				func() error { return s.ask(http.MethodPost, "/held", "") })
			traffic.end()
		})
	}
}
