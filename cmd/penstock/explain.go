package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/authz/jwt"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

const explainLong = `Explain where a request would go, and why: the listener, host, route and rule that match it, the
backends with their shares, the picker, the endpoint that it would pick now, what happens without a pick, and the
conditions of the objects involved. The answer includes what Envoy changes in a request before it matches routes:
normalized paths, removed headers. The client's address, and the values of Envoy's own headers such as x-request-id,
are not known.

The command queries the penstock that runs for the same files. If none runs, it reads the files itself and omits the
picker's view. With --http it queries the penstock at that address. Without -f, --state and --http it queries one of
the cluster that the kubeconfig names.

The exit status is 1 if the request, or a share of it, would reach no backend with endpoints, or one without a server
that serves now. A redirect counts as success.

A URL with the scheme grpc or grpcs is a gRPC request, such as grpc://localhost:8080/echo.Echo/Echo. A URL with the
scheme tls or tcp is a connection that a TLSRoute or TCPRoute forwards, and one with the scheme udp a datagram of a
UDPRoute.

With --last or --why it shows past picks of all processes that serve the same Envoys: what was compared, what was
chosen and how the request ended. With --why it also shows each cluster of an import to which the request was sent
without such a pick, and the result, once the request has ended there.

Each process keeps its last 8,192 picks. The newest picks of a pool, 64 at most and one in 20 ms, have each part of
each endpoint's cost at the moment of the choice. An older pick has the eight best endpoints, with a cost or score for
each if the strategy compares by one.`

func newExplain() *cobra.Command {
	var s target
	var why whyOptions
	var method, gateway, model, key, tokenFile, output string
	var headers []string
	cmd := &cobra.Command{
		Use: "explain URL | --last N | --why REQUEST_ID",
		Short: "Explain where a request would go, and why: listener, route, backend, picker, endpoint; or show " +
			"past picks",
		Long: explainLong,
		Example: `  penstock explain -f ./config http://localhost:8080/v1/chat/completions
  penstock explain -f ./config http://localhost:8080/v1/chat/completions --model llama-3
  penstock explain -f ./config http://llm.example.com/v1/models -H 'x-team: a' -o json
  penstock explain -f ./config tls://db.example.com:5432
  penstock explain -f ./config http://localhost:8080/v1/chat/completions --token-file token
  penstock explain -f ./config --last 10
  penstock explain -f ./config --why 0b6a3f4e-8a60-4b1f-9d0e-4b1a7c1f3f55
  penstock explain http://llm.example.com/v1/models     # in the cluster that kubectl uses`,
		Args: func(cmd *cobra.Command, args []string) error {
			if why.asked(cmd) {
				return why.check(cmd, args)
			}
			if len(args) != 1 {
				return fmt.Errorf("a URL is required: penstock explain http://HOST:PORT/PATH")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if why.asked(cmd) {
				return why.run(cmd, &s, output)
			}
			token, err := tokenIn(cmd.InOrStdin(), tokenFile)
			if err != nil {
				return err
			}
			e, err := s.explain(cmd, args[0], url.Values{"method": {method}, "gateway": {gateway}, "header": headers,
				"model": {model}, "key": {keyNamed(key)}}, token)
			if err != nil {
				return err
			}
			if output == "json" {
				err = printJSON(cmd.OutOrStdout(), e)
			} else {
				err = printExplained(cmd.OutOrStdout(), e)
			}
			if err == nil && !e.Served {
				err = exitCode(1)
			}
			return err
		},
	}
	s.ranFlags(cmd)
	why.flags(cmd)
	f := cmd.Flags()
	f.StringVarP(&method, "method", "X", "", "HTTP method of the request (default: POST where the path is of an API "+
		"with prompts, or has no route for GET, else GET)")
	f.StringArrayVarP(&headers, "header", "H", nil, "request header, as 'name: value'; Host replaces the URL's host, "+
		"but not the server name of TLS; may be repeated (default: none)")
	f.StringVar(&model, "model", "",
		"model name in the request's body, for routes that match X-Gateway-Model-Name (default: none)")
	f.StringVar(&key, "key", "",
		"APIKey of the request, as NAME or NAMESPACE/NAME: what the AccessPolicies above the route decide "+
			"(default: none)")
	f.StringVar(&tokenFile, "token-file", "",
		"file with the JSON Web Token of the request, or - for standard input: what the AccessPolicies decide, and "+
			"why; the token is not printed (default: none)")
	exclusive(cmd, "key", "token-file")
	f.StringVar(&gateway, "gateway", "", "only this Gateway, as NAMESPACE/NAME (default: any)")
	outputFlag(cmd, &output, "text", "json")
	_ = cmd.RegisterFlagCompletionFunc("gateway", first(store.Gateways.Kind())(&s))
	_ = cmd.RegisterFlagCompletionFunc("pool", s.targets())
	_ = cmd.RegisterFlagCompletionFunc("key", suggest(func(ctx context.Context, _ []string) []string {
		return s.objects(ctx, store.APIKeys.Kind())
	}))
	return cmd
}

func (s *target) explain(cmd *cobra.Command, text string, values url.Values, token string) (app.Explained, error) {
	var e app.Explained
	address := text
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	q, err := app.ParseQuery(address, values.Get("method"), values["header"])
	if err != nil {
		return e, fmt.Errorf("%q is not a URL: %w: write http://HOST:PORT/PATH", text, err)
	}
	q.Model, q.Gateway, q.Key, q.Token = values.Get("model"), values.Get("gateway"), values.Get("key"), token
	values.Set("url", address)
	page := "/explain?" + values.Encode()
	if s.http != "" || s.inCluster() {
		at, err := s.running(cmd.Context())
		if err != nil {
			return e, err
		}
		if at, err = at.withToken(token); err != nil {
			return e, err
		}
		return e, at.get(cmd.Context(), page, &e)
	}
	dir, err := s.stateDir()
	if err != nil {
		return e, err
	}
	at, err := runningFor(dir).withToken(token)
	if err != nil {
		return e, err
	}
	if err = at.get(cmd.Context(), page, &e); err == nil || cmd.Context().Err() != nil {
		return e, err
	}
	if len(s.paths) == 0 {
		return e, fmt.Errorf("no penstock runs with the state folder %s; name the files to read: -f FOLDER", dir)
	}
	fmt.Fprintln(cmd.ErrOrStderr(),
		"penstock is not running for these files: the explanation comes from the files, without the picker's view")
	if _, err := os.Stat(dir); err != nil {
		dir = "" // no penstock ran here: explain reads no last good versions, and must write none
	}
	processor, err := defaultProcessor()
	if err != nil {
		return e, err
	}
	p, err := app.NewOffline(app.OfflineConfig{
		Paths: s.paths, StateDir: dir, PickerAddresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9002")},
		Processor: processor, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return e, err
	}
	if _, _, err := p.Translate(cmd.Context()); err != nil {
		return e, err
	}
	return p.Explain(q), nil
}

// tokenIn reads a JSON Web Token from a file; path "" means none, "-" stdin. Errors never contain
// the token.
func tokenIn(stdin io.Reader, path string) (string, error) {
	if path == "" {
		return "", nil
	}
	text, name, err := readKeys(stdin, path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if !jwt.Formed(token) {
		return "", fmt.Errorf("--token-file: %s has no JSON Web Token, which has three parts with dots between, and "+
			"begins with eyJ", name)
	}
	return token, nil
}

func keyNamed(text string) string {
	if text == "" || strings.Contains(text, "/") {
		return text
	}
	return objectid.Join(metav1.NamespaceDefault, text)
}

func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(label, format string, args ...any) {
	if p.err == nil {
		text := fmt.Sprintf("%-14s %s", label, fmt.Sprintf(format, args...))
		_, p.err = fmt.Fprintln(p.w, strings.TrimRight(text, " "))
	}
}

func (p *printer) given(label, text string) {
	if text != "" {
		p.line(label, "%s", text)
	}
}

func printExplained(w io.Writer, e app.Explained) error {
	p := &printer{w: w}
	what := "request"
	switch {
	case strings.HasPrefix(e.URL, "udp://"):
		what = "datagram"
	case e.Method == "":
		what = "connection"
	}
	p.line(what, "%s", strings.TrimSpace(e.Method+" "+e.URL))
	what += "s"
	if e.Gateway != "" {
		p.line("gateway", "%s, listener %s (chain %s)", e.Gateway, e.Listener, e.Chain)
	}
	p.given("host", e.Host)
	if e.Route != nil {
		name := ""
		if e.RuleName != "" {
			name = " (" + e.RuleName + ")"
		}
		p.line("route", "%s, rule %d%s: %s", e.Route, e.Rule, name, e.Match)
	}
	p.line("answer", "%s", e.Answer)
	if len(e.Models) > 0 && e.Method != "" {
		p.line("model", "other rules match this request by its model: add --model %s",
			strings.Join(e.Models, ", or --model "))
	}
	if e.Access != "" {
		p.line("access", "%s", e.Access)
	}
	for _, f := range e.Filters {
		p.line("filter", "%s", f)
	}
	for _, b := range e.Backends {
		p.backend("", what, b, e)
	}
	for _, o := range e.Conditions {
		for _, c := range o.Status.Conditions {
			p.line("condition", "%s %s=%s %s", o.Ref, c.Type, c.Status, c.Message)
		}
		for _, parent := range o.Status.Parents {
			for _, c := range parent.Conditions {
				p.line("condition", "%s at %s %s=%s %s", o.Ref, parent.ParentRef.Name, c.Type, c.Status, c.Message)
			}
		}
	}
	return p.err
}

func (p *printer) backend(indent, what string, b translator.BackendView, e app.Explained) {
	to := b.Backend
	if b.Cluster != "" {
		to += " (cluster " + b.Cluster + ")"
	}
	p.line(indent+"backend", "%s of %s to %s", b.Share, what, to)
	indent += "  "
	if id, ok := model.ParseClusterID(b.Cluster); ok && e.Silent[id.Member] != "" {
		p.line(indent+"member", "%s is %s, and keeps what it exports: requests go there as long as they are served "+
			"(penstock clusters list)", id.Member, e.Silent[id.Member])
	}
	for _, f := range b.Filters {
		p.line(indent+"filter", "%s", f)
	}
	p.given(indent+"TLS", b.TLS)
	if b.Picker != "" {
		p.line(indent+"picker", "%s, which receives %s", b.Picker, bodyText(b, e))
	}
	if b.Subset != "" {
		p.line(indent+"subset", "endpoints with the labels %s", b.Subset)
	}
	switch {
	case len(b.Endpoints) > 0 && len(b.Endpoints) == len(b.Hops):
	case len(b.Endpoints) > 0:
		p.line(indent+"endpoints", "%s", placesText(b.Endpoints, " "))
	case b.Cluster != "":
		p.line(indent+"endpoints", "none")
	}
	if servers, ok := e.Servers[b.Cluster]; ok && servers.Servers > 0 {
		p.line(indent+"servers", "%s", servers.String())
	}
	p.given(indent+"no pick", b.NoPick)
	p.pick(indent, e.Picks[b.Pool])
	for _, h := range b.Hops {
		to := placesText([]string{h.Endpoint}, "")
		switch {
		case h.Last:
			p.line(indent+"hop", "%s as a whole, once each of its clusters has declined", to)
		case h.Later:
			p.line(indent+"hop", "%s, once those before it have declined", to)
		case h.Share == "":
			p.line(indent+"hop", "%s", to)
		case b.Picker != "":
			p.line(indent+"hop", "%s, the first for %s of the requests without a pick", to, h.Share)
		default:
			p.line(indent+"hop", "%s, the first for %s of these requests", to, h.Share)
		}
		for _, behind := range h.Backends {
			p.backend(indent+"  ", what, behind, e)
		}
	}
}

func bodyText(b translator.BackendView, e app.Explained) string {
	bodiless := e.Method == http.MethodGet || e.Method == http.MethodHead || e.Method == http.MethodOptions
	switch {
	case b.Body == "None":
		return "headers only"
	case bodiless:
		return "headers only: such a request has no body"
	case b.Body == "Duplex":
		return "headers and a stream of the body"
	}
	var ours picker.Explanation
	if raw := e.Picks[b.Pool]; raw != nil && json.Unmarshal(raw, &ours) == nil &&
		ours.Body == string(picker.BodyPrompts) {
		if u, err := url.Parse(e.URL); err == nil && request.KindOf([]byte(u.Path)) == request.OtherKind {
			return "headers only: the path is of no API with prompts that it reads"
		}
	}
	return "headers and body"
}

func (p *printer) pick(indent string, raw json.RawMessage) {
	var e picker.Explanation
	if raw == nil || json.Unmarshal(raw, &e) != nil {
		return
	}
	if e.Flow != nil {
		text := fmt.Sprintf("saturation %.2f", e.Flow.Saturation)
		for _, b := range e.Flow.Waiting {
			text += fmt.Sprintf("; of priority %d wait %s, of %s", b.Priority, counted(b.Requests, "request"),
				counted(b.Flows, "fairness ID"))
		}
		p.line(indent+"flow control", "%s", text)
	}
	if e.Processor != nil {
		p.line(indent+"processor", "%s", preparesText(e.Processor))
	}
	if len(e.Targets) > 0 {
		p.line(indent+"model", "%s", targetsText(e.Targets))
	}
	switch {
	case len(e.Clusters) > 0:
		p.line(indent+"now", "cluster %s (strategy %s, for a request without a prompt)", e.Clusters[0].Cluster,
			strategyText(e))
		for _, c := range e.Clusters {
			p.line("", indent+"%s", clusterText(c))
		}
	case len(e.Relay) > 0:
		p.line(indent+"now", "the remote picker decides: %s (--why shows what it has named for a request)",
			strings.Join(e.Relay, " "))
	case e.Status != 0:
		p.line(indent+"now", "%d (%s)", e.Status, e.Reason)
	default:
		p.line(indent+"now", "%s (strategy %s)", listText(e.Endpoints), strategyText(e))
	}
	for _, x := range e.Exceeded {
		p.line(indent+"limit", "%s", excessText(x))
	}
	if e.Scored != nil {
		p.line("", indent+"scores of external scorers are from the pick at %s",
			e.Scored.UTC().Format("2006-01-02T15:04:05Z"))
	}
	for _, v := range e.Verdicts {
		p.line("", indent+"%s", verdictText(v))
	}
	for _, s := range e.Stages {
		p.line(indent+s.Name, "%s", cmp.Or(s.Endpoints, "no server takes requests: the decode servers do it"))
		for _, v := range s.Verdicts {
			p.line("", indent+"%s", verdictText(v))
		}
	}
}

func clusterText(c picker.ClusterCost) string {
	wait := "wait"
	if c.Basis == string(selection.Answered) || c.Basis == string(selection.Tried) {
		wait = "first byte"
	}
	text := fmt.Sprintf("%s: cost %.3f s (%s %.3f s by %s, round trip %.3f s", c.Cluster, c.Cost, wait, c.Wait, c.Basis,
		c.RoundTrip)
	if c.Prompt > 0 {
		text += fmt.Sprintf(", prompt %.3f s", c.Prompt)
	}
	if c.Margin > 0 {
		text += fmt.Sprintf(", margin of this cluster %.3f s", c.Margin)
	}
	text += ")"
	if c.Cached > 0 {
		text += "; " + counted(c.Cached, "token") + " cached"
	}
	if c.Session {
		text += "; the session is there"
	}
	if c.Barred != "" {
		text += "; last: " + c.Barred
	}
	return text
}

func targetsText(targets []picker.ModelTarget) string {
	var sum, rest float64
	for _, t := range targets {
		sum += float64(max(t.Weight, 1))
	}
	texts := make([]string, 0, maxTargets+1)
	for i, t := range targets {
		share := float64(max(t.Weight, 1)) / sum
		if i >= maxTargets {
			rest += share
			continue
		}
		texts = append(texts, fmt.Sprintf("%s (%.3g%%)", t.Name, 100*share))
	}
	if rest > 0 {
		texts = append(texts, fmt.Sprintf("%d more (%.3g%%)", len(targets)-maxTargets, 100*rest))
	}
	return "replaced by " + strings.Join(texts, ", ")
}
