package attacks

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// faulty is an annotation of a route. A test build of penstock (build tag faults) panics when it
// translates the route; a release ignores it.
const faulty = "penstock.dev/fault: panic"

func redirect(name, path, to, annotation string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %s, annotations: {%s}}
spec:
  parentRefs: [{name: gw}]
  hostnames: [a.example]
  rules:
  - matches: [{path: {value: %s}}]
    filters: [{type: RequestRedirect, requestRedirect: {hostname: %s, statusCode: 302}}]
`, name, annotation, path, to)
}

// answer requests a path of a.example. It returns the response's status and a redirect's target.
func (s *site) answer(path string) (string, error) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "http://"+local(s.gateway)+path, nil)
	if err != nil {
		return "", err
	}
	req.Host = "a.example"
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	out := fmt.Sprint(resp.StatusCode)
	if to, err := resp.Location(); err == nil {
		out += " " + to.Hostname()
	}
	return out, nil
}

func (s *site) answers(path, want string) {
	s.Helper()
	s.Eventually(fmt.Sprintf("%s answers %s", path, want), func() error {
		got, err := s.answer(path)
		if err == nil && got != want {
			err = fmt.Errorf("it answers %s, want %s", got, want)
		}
		return err
	})
}

func (s *site) page(path string) (string, error) {
	resp, err := http.Get("http://" + local(s.http) + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	return string(text), err
}

func (s *site) metric(series string) (value float64, err error) {
	page, err := s.page("/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(page) {
		if text, ok := strings.CutPrefix(line, series+" "); ok {
			_, err = fmt.Sscan(text, &value)
			return value, err
		}
	}
	return 0, errors.New("no metric " + series)
}

func TestPanic_OfOneRouteHarmsThatRouteAlone(t *testing.T) {
	binary, err := process.Penstock(t.Context(), t.TempDir(), "-tags", "faults")
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(t, map[string]string{"good.yaml": redirect("good", "/good", "one", "")})
	s.serveWith(binary)
	s.attach()
	s.answers("/good", "302 one")
	traffic := s.traffic()
	// The route was never translated before, so it answers 500. Other routes share its host.
	s.Write("bad.yaml", redirect("bad", "/bad", "one", faulty))
	s.answers("/bad", "500")
	s.Write("good.yaml", redirect("good", "/good", "two", ""))
	s.answers("/good", "302 two")
	// Proxies keep a route's last valid configuration.
	s.Write("good.yaml", redirect("good", "/good", "three", faulty))
	s.Write("third.yaml", redirect("third", "/third", "one", ""))
	s.answers("/third", "302 one")
	s.answers("/good", "302 two")
	status, err := s.page("/status")
	if err != nil || strings.Count(status, `"reason": "InternalError"`) < 2 {
		t.Errorf("got %v; the status of the two routes is %s, want InternalError twice", err, status)
	}
	metrics, err := s.page("/metrics")
	if err != nil || !strings.Contains(metrics, `penstock_panics_total{part="translation"}`) ||
		strings.Contains(metrics, `penstock_panics_total{part="translation"} 0`) {
		t.Errorf("panics of the translation: got %v\n%s\nwant some", err, metrics)
	}
	if _, err := s.page("/healthz"); err != nil {
		t.Error(err)
	}
	if n := strings.Count(s.log("penstock"), "runtime/debug.Stack"); n != 1 {
		t.Errorf("the stack is logged %d times, want 1", n)
	}
	s.Write("good.yaml", redirect("good", "/good", "three", ""))
	s.Write("bad.yaml", redirect("bad", "/bad", "one", ""))
	s.answers("/good", "302 three")
	s.answers("/bad", "302 one")
	traffic.end()
}

func TestPanic_FaultIsOutOfReachInARelease(t *testing.T) {
	s := start(t, map[string]string{"bad.yaml": redirect("bad", "/bad", "one", faulty)})
	s.answers("/bad", "302 one")
	if metrics, err := s.page("/metrics"); err != nil ||
		!strings.Contains(metrics, `penstock_panics_total{part="translation"} 0`) {
		t.Errorf("panics of the translation in a release: got %v\n%s\nwant 0", err, metrics)
	}
}
