package explain

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-project/penstock/conformance/promises/process"
)

// Config configures a comparison.
type Config struct {
	Penstock, Envoy string
	Dir             string // folder for files and sockets; the path must be short
	Seed            uint64
	Forms           int
	Commands        int // number of requests that the command penstock explain also explains
}

// Difference is a request for which explain and Envoy differ. Envoy and Explained each have a
// route's name or a status.
type Difference struct {
	Form             Form
	Envoy, Explained string
	Answer           string // explain's answer in words
}

func (d Difference) String() string {
	return fmt.Sprintf("Envoy: %s\nexplain: %s (%s)\n%q", d.Envoy, d.Explained, d.Answer, d.Form.Wire())
}

const workers = 4

type rig struct {
	Config
	up           *process.Process
	gateway      string
	files, state string
	api          *http.Client
}

type sent struct {
	form      Form
	id        string // x-request-id; "" if Envoy answered before routing
	status    int
	grpc      string // grpc-status in the headers of Envoy's answer
	explained explained
}

type explained struct {
	Name   string `json:"name"`
	Answer string `json:"answer"`
}

func (e explained) way() string {
	if e.Name != "" {
		return e.Name
	}
	status, _, _ := strings.Cut(e.Answer, ":")
	return status
}

// Run sends the requests and returns the differences.
func Run(ctx context.Context, c Config) ([]Difference, error) {
	g := New(c.Seed)
	server, stop, err := serve()
	if err != nil {
		return nil, err
	}
	defer stop()
	r, err := start(ctx, c, g, server)
	if r != nil {
		defer func() { _ = r.up.Stop(process.Limit) }()
	}
	if err != nil {
		return nil, err
	}
	all := make([]sent, c.Forms)
	for i := range all {
		all[i].form = g.Form()
	}
	group, sending := errgroup.WithContext(ctx)
	for w := range workers {
		group.Go(func() error {
			conn := &connection{address: r.gateway}
			defer conn.close()
			for i := w; i < len(all); i += workers {
				if err := r.one(sending, conn, &all[i]); err != nil {
					return fmt.Errorf("request %d of seed %d: %w\n%q", i, c.Seed, err, all[i].form.Wire())
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var out []Difference
	for i := range min(c.Commands, len(all)) {
		e, err := r.command(ctx, &all[i].form)
		if err != nil {
			return nil, err
		}
		if e != all[i].explained {
			out = append(out, Difference{all[i].form, "the page has " + all[i].explained.way(), e.way(), e.Answer})
		}
	}
	if err := r.up.Stop(process.Limit); err != nil { // Envoy writes its access log when it ends
		return nil, err
	}
	routes, err := r.routes()
	if err != nil {
		return nil, err
	}
	for i := range all {
		s := &all[i]
		envoy := strconv.Itoa(s.status)
		if route, logged := routes[s.id]; s.id != "" && !logged {
			return nil, fmt.Errorf("the access log lacks request %s: %q", s.id, s.form.Wire())
		} else if s.id != "" && route != "" && (s.explained.Name != "" || s.status < http.StatusBadRequest) {
			envoy = route
		}
		if way := s.explained.way(); way != envoy && (s.grpc == "" || grpcStatus[way] != s.grpc) {
			out = append(out, Difference{s.form, envoy, way, s.explained.Answer})
		}
	}
	return out, nil
}

// grpcStatus maps an HTTP status to the gRPC status with which Envoy answers gRPC requests.
var grpcStatus = map[string]string{"200": "13", "400": "13", "404": "12", "503": "14"}

func serve() (port int, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, nil, err
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	go func() { _ = s.Serve(l) }() // ends with Close
	return l.Addr().(*net.TCPAddr).Port, func() { _ = s.Close() }, nil
}

var ports process.Ports

func start(ctx context.Context, c Config, g *Grammar, server int) (*rig, error) {
	port, err := ports.Free()
	if err != nil {
		return nil, err
	}
	r := &rig{Config: c, gateway: fmt.Sprint("127.0.0.1:", port), files: filepath.Join(c.Dir, "files"),
		state: filepath.Join(c.Dir, "state")}
	r.api = &http.Client{Timeout: process.Limit, Transport: &http.Transport{
		MaxIdleConnsPerHost: workers,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(r.state, "api.sock"))
		},
	}}
	if err := os.MkdirAll(r.files, 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(r.files, "all.yaml"), []byte(g.Manifest(port, server)), 0o600); err != nil {
		return nil, err
	}
	log := filepath.Join(c.Dir, "penstock.log")
	r.up, err = process.Start("penstock", log, c.Penstock, []string{"ENVOY=" + c.Envoy}, "up", "-f", r.files,
		"--state", r.state,
		"--concurrency", "1", "--access-log", r.log())
	if err != nil {
		return nil, err
	}
	return r, process.Eventually(ctx, "the Gateway serves", func() error {
		text, err := os.ReadFile(log)
		if !strings.Contains(string(text), "serves at") {
			return errors.Join(fmt.Errorf("penstock has printed:\n%s", text), err, r.up.Running())
		}
		return nil
	})
}

func (r *rig) log() string { return filepath.Join(r.Dir, "access.log") }

func (r *rig) one(ctx context.Context, conn *connection, s *sent) error {
	if err := conn.send(s); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://penstock/explain?"+s.form.Query(r.gateway).Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := r.api.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return errors.Join(fmt.Errorf("explain: %s: %s", resp.Status, text), err)
	}
	return json.Unmarshal(text, &s.explained)
}

func (r *rig) command(ctx context.Context, f *Form) (e explained, err error) {
	cmd := exec.CommandContext(ctx, r.Penstock, append(f.Args(r.gateway), "-f", r.files, "--state", r.state)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if len(out) == 0 { // with output, exit status 1 is an answer, too
		return e, fmt.Errorf("penstock explain: %w\n%s", err, &stderr)
	}
	return e, json.Unmarshal(out, &e)
}

// routes returns route names by request ID, from Envoy's access log. It removes the suffixes that
// Envoy's names have for parts of a route.
func (r *rig) routes() (map[string]string, error) {
	text, err := os.ReadFile(r.log())
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range bytes.Lines(text) {
		var entry struct{ ID, Route string }
		if err := json.Unmarshal(line, &entry); err != nil {
			return nil, fmt.Errorf("access log: %w: %s", err, line)
		}
		route, _, _ := strings.Cut(entry.Route, "#")
		out[entry.ID] = strings.TrimSuffix(route, "-")
	}
	return out, nil
}

type connection struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
}

func (c *connection) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// send sends a request. After an error on a used connection, which Envoy may have closed, it
// retries on a new connection.
func (c *connection) send(s *sent) error {
	fresh := c.conn == nil
	resp, err := c.try(&s.form)
	if err != nil && !fresh {
		c.close()
		resp, err = c.try(&s.form)
	}
	if err != nil {
		c.close()
		return err
	}
	s.status, s.id, s.grpc = resp.StatusCode, resp.Header.Get("x-request-id"), resp.Header.Get("grpc-status")
	var own []string
	for _, h := range s.form.Header {
		if v := strings.TrimSpace(h[1]); strings.EqualFold(h[0], "x-request-id") && v != "" {
			own = append(own, v)
		}
	}
	if s.id == strings.Join(own, ",") {
		s.id = "" // Envoy returned the client's ID, so it did not route the request
	}
	if resp.Close || resp.ProtoMinor == 0 || strings.Contains(strings.ToLower(fmt.Sprint(s.form.Header)), "upgrade") {
		c.close()
	}
	return nil
}

func (c *connection) try(f *Form) (resp *http.Response, err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.address, process.Limit); err != nil {
			return nil, err
		}
		c.reader = bufio.NewReader(c.conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(process.Limit)); err != nil {
		return nil, err
	}
	if _, err := c.conn.Write(f.Wire()); err != nil {
		return nil, err
	}
	for {
		if resp, err = http.ReadResponse(c.reader, &http.Request{Method: f.Method}); err != nil {
			return nil, err
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode >= 200 {
			return resp, err
		}
	}
}
