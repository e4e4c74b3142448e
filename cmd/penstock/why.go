package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/translator/model"
)

type whyOptions struct {
	last    int
	request string
	pool    string
}

func (o *whyOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&o.last, "last", 0,
		"show the last picks of all processes, this many at most, instead of explaining a URL (default: none)")
	f.StringVar(&o.request, "why", "",
		"show the picks for the request with this ID, which responses have in the header x-request-id, and the "+
			"clusters of imports that it was sent to, instead of explaining a URL (default: none)")
	f.StringVar(&o.pool, "pool", "",
		"with --last, only picks from this pool and from imports of its name, as NAMESPACE/NAME; NAMESPACE/NAME@ is "+
			"an import alone, and NAMESPACE/NAME@CLUSTER one cluster of it (default: all)")
}

func (o *whyOptions) asked(cmd *cobra.Command) bool {
	return slices.ContainsFunc([]string{"last", "why", "pool"}, cmd.Flags().Changed)
}

func (o *whyOptions) check(cmd *cobra.Command, args []string) error {
	set := cmd.Flags().Changed
	switch {
	case len(args) > 0:
		return errors.New("--last, --why and --pool show past picks: leave out the URL")
	case set("last") && set("why"):
		return errors.New("--last and --why exclude each other: use --why ID for the picks of one request, or --last " +
			"N for the newest picks")
	case set("why") && set("pool"): // a request's picks need no filter
		return errors.New("--pool goes with --last: leave it out, or use --last N instead of --why")
	case !set("why") && !set("last"):
		return errors.New("--pool goes with --last: add --last N for the newest picks of the pool")
	}
	past := "--last"
	if set("why") {
		past = "--why"
	}
	for _, f := range []struct{ name, shown string }{
		{"method", "--method (-X)"}, {"header", "--header (-H)"}, {"model", "--model"}, {"gateway", "--gateway"},
	} {
		if set(f.name) {
			return fmt.Errorf("%s goes with a URL: leave it out, or use a URL instead of %s", f.shown, past)
		}
	}
	return nil
}

func (o *whyOptions) run(cmd *cobra.Command, s *target, output string) error {
	args := url.Values{}
	switch {
	case cmd.Flags().Changed("why") && o.request == "":
		return errors.New("--why needs the ID of a request: the header x-request-id of its response")
	case o.last < 0, o.last == 0 && o.request == "":
		return errors.New("--last must be 1 or more")
	case o.last > 0:
		args.Set("last", strconv.Itoa(o.last))
	}
	if o.request != "" {
		args.Set("request", o.request)
	}
	if o.pool != "" {
		args.Set("pool", o.pool)
	}
	all, err := s.replicas(cmd.Context())
	if err != nil {
		return err
	}
	answers, _, err := fromSome[app.FoundPicks](cmd, all, "/debug/picks?"+args.Encode())
	if err != nil {
		return err
	}
	found := joinPicks(answers, o.last)
	if found.Unknown {
		return fmt.Errorf("there is no pool %s: %s", o.pool, poolsText(found))
	}
	if output == "json" {
		return printJSON(cmd.OutOrStdout(), found)
	}
	switch {
	case found.Silent == 1:
		fmt.Fprintln(cmd.ErrOrStderr(), "1 other process of penstock does not answer: its picks are missing")
	case found.Silent > 1:
		fmt.Fprintf(cmd.ErrOrStderr(), "%d other processes of penstock do not answer: their picks are missing\n",
			found.Silent)
	}
	if o.request != "" && len(found.Picks) == 0 {
		return fmt.Errorf("no process has a pick for request %s: each process keeps its last 8,192 picks, and an ID "+
			"is the header x-request-id of a response. A request that is answered before a pick, such as 401 or 403 "+
			"by an AccessPolicy, or 400 or 413 by its body, has none: see the access log. A request to another "+
			"cluster is known a moment after it has ended there: ask again", o.request)
	}
	switch {
	case len(found.Picks) > 0:
	case o.pool != "":
		fmt.Fprintf(cmd.ErrOrStderr(), "no picks of pool %s are known yet\n", o.pool)
	default:
		fmt.Fprintln(cmd.ErrOrStderr(), "no picks are known yet")
	}
	if o.request != "" {
		slices.Reverse(found.Picks)
	}
	return printPicks(cmd.OutOrStdout(), found.Picks, o.request != "")
}

func poolsText(found app.FoundPicks) string {
	if len(found.Pools) == 0 {
		return "the process has none"
	}
	text := "the process has " + strings.Join(found.Pools, ", ")
	if found.More > 0 {
		text += fmt.Sprintf(" and %d more", found.More)
	}
	return text
}

func printPicks(w io.Writer, picks []*picker.Record, stages bool) error {
	p := &printer{w: w}
	for _, r := range picks {
		if r.Sent != nil {
			p.sent(r)
			continue
		}
		p.picked(r)
		if stages {
			p.stages(r.Stages)
		}
		p.compared(r)
	}
	return p.err
}

func (p *printer) picked(r *picker.Record) {
	p.line("pick", "%s", strings.Join(slices.DeleteFunc([]string{
		r.Time.Format("2006-01-02 15:04:05.000"), labelled("request", r.Request), whereText(r.Pool),
		labelled("model", r.Model), labelled("gateway", r.Gateway), labelled("picker", r.Picker),
	}, func(s string) bool { return s == "" }), ", "))
	how := fmt.Sprintf("strategy %s%s, %s", r.Strategy, choiceText(r.Choice), counted(r.Candidates, "candidate"))
	if r.Strategy == "round-robin" && r.Result == "picked" {
		how = fmt.Sprintf("strategy %s: the next in turn of %s", r.Strategy, counted(r.Candidates, "candidate"))
	}
	if r.Criticality != "" {
		how += fmt.Sprintf(", %s requests", r.Criticality)
	}
	if r.Tokens > 0 {
		how += ", a prompt of " + counted(r.Tokens, "token")
	}
	if r.Waited > 0 {
		p.line("  waited", "%.3f s, while the pool was saturated", r.Waited.Seconds())
	}
	if r.Processor != nil {
		p.line("  processor", "%s", processedText(r.Processor))
	}
	// Busy pools keep verdicts of a sample of picks. Picks of clusters have none.
	if len(r.Verdicts) == 0 && len(r.Compared) > 0 && r.Compared[0].Basis == "" {
		how += ", no details: not in the sample"
	}
	switch {
	case r.Result == "relayed":
		p.line("  choice", "its own picker names %s", r.Endpoints)
	case r.Result == "relay_open":
		p.line("  choice", "its own picker names none, and it fails open: %s", listText(r.Endpoints))
	case r.Result == "cluster":
		p.line("  choice", "%s (%s)", listText(r.Endpoints), how)
	case r.Status != 0:
		p.line("  choice", "none: %d %s (%s)", r.Status, r.Result, how)
	default:
		p.line("  choice", "%s: %s (%s)", r.Result, listText(r.Endpoints), how)
	}
	p.given("  session", r.Session)
	p.given("  response", r.Follows)
	p.given("  drawn", drawnText(r.Compared))
	for _, x := range r.Exceeded {
		p.line("  limit", "%s", excessText(x))
	}
	p.given("  prefill", r.Prefill)
	p.given("  encode", r.Encode)
	if len(r.Missing) > 0 {
		p.line("  missing", "no server is free for %s", strings.Join(r.Missing, ", "))
	}
	p.given("  error", r.Error)
	if r.Outcome != nil {
		p.line("  outcome", "%s", outcomeText(*r.Outcome))
	}
}

func (p *printer) compared(r *picker.Record) {
	first, _, _ := strings.Cut(r.Endpoints, ",")
	if len(r.Verdicts) == 0 {
		for _, c := range r.Compared {
			p.line("", "  %s", comparedText(c, c.Address == first))
		}
		return
	}
	for _, v := range r.Verdicts {
		p.line("", "  %s", pickedText(v, v.Address == first))
	}
	for _, why := range slices.Sorted(maps.Keys(r.Omitted)) {
		p.line("", "  and %d more: %s", r.Omitted[why], why)
	}
}

func (p *printer) stages(passed []picker.Passed) {
	label := "  stages"
	for _, s := range passed {
		p.line(label, "%-8s %9.3f ms  %s", s.Stage, float64(s.Took.Microseconds())/1000, listText(s.Decided))
		label = ""
	}
}

func (p *printer) sent(r *picker.Record) {
	how := []string{r.Time.Format("2006-01-02 15:04:05.000"), labelled("request", r.Request), "to " + whereText(r.Pool),
		labelled("gateway", r.Gateway)}
	if r.Sent.Spilled {
		how = append(how, "spilled by a pool")
	}
	p.line("sent", "%s", strings.Join(slices.DeleteFunc(how, func(s string) bool { return s == "" }), ", "))
	if r.Sent.Declined {
		begun := "no server there has begun the request"
		if pickerEnded(r.Sent.Details) {
			begun = "its picker has ended the call, and a server there may have begun the request"
		}
		p.line("  declined", "%s: it went on to another cluster or spill target, if one was left", begun)
	}
	switch {
	case r.Sent.Details != "":
		p.line("  details", "%s", detailsText(r.Sent.Details))
	case r.Sent.Declined:
		p.line("  details", "its gateway has answered so")
	}
	if r.Outcome != nil {
		p.line("  outcome", "%s", outcomeText(*r.Outcome))
	}
	if r.Sent.There != "" {
		p.line("  there", "it is request %s: ask that cluster with penstock explain --why %s", r.Sent.There,
			r.Sent.There)
	}
}

// pickerEnded reports whether the picker had received the failed call, and may have picked a
// server.
func pickerEnded(details string) bool {
	return strings.HasPrefix(details, "ext_proc_error") && !strings.Contains(details, "no_healthy_upstream") &&
		!strings.Contains(details, "connection_failure")
}

func detailsText(details string) string {
	if reason, ok := strings.CutPrefix(details, "penstock_"); ok {
		return reason + ": its picker has answered so"
	}
	if pickerEnded(details) {
		return details + ": its picker has ended the call"
	}
	for _, known := range []struct{ begins, means string }{
		{"ext_proc_error", "none of its pickers is healthy, or can be connected to"},
		{"no_healthy_upstream", "its picker names none of its endpoints, or none is healthy"},
		{"upstream_reset_before_response_started{connection", "no connection to it"},
		{"upstream_reset", "the connection to it has ended"},
		{"cluster_not_found", "this gateway's Envoy does not have it yet"},
	} {
		if strings.HasPrefix(details, known.begins) {
			return details + ": " + known.means
		}
	}
	return details
}

// listText lists each endpoint once. Picks repeat endpoints for retries.
func listText(endpoints string) string {
	const hops = "envoy://" + model.HopListener + "/"
	if !strings.Contains(endpoints, hops) {
		var once []string
		for e := range strings.SplitSeq(endpoints, ",") {
			if !slices.Contains(once, e) {
				once = append(once, e)
			}
		}
		return strings.Join(once, ",")
	}
	return placesText(strings.Split(endpoints, ","), ", ")
}

func placesText(endpoints []string, separator string) string {
	list := slices.Clone(endpoints)
	for i, text := range list {
		name, ok := strings.CutPrefix(text, "envoy://"+model.HopListener+"/")
		if id, known := model.ParseHopID(name); ok && known {
			if list[i] = poolText(id.Target()); separator == " " {
				list[i] = "(spills to " + list[i] + ")"
			}
		}
	}
	return strings.Join(list, separator)
}

func whereText(text string) string {
	id, ok := objectid.ParseTarget(text)
	if !ok || id.IsZero() {
		return labelled("pool", text)
	}
	return poolText(id)
}

func poolText(id objectid.Target) string {
	switch {
	case id.Import:
		return "import " + id.Pool.String()
	case id.Member != "":
		return fmt.Sprintf("cluster %s of import %s", id.Member, id.Pool.String())
	}
	return "pool " + id.Pool.String()
}

var choiceTexts = map[string]string{
	endpointpicker.MaxScorePicker:       "the highest score",
	endpointpicker.WeightedRandomPicker: "drawn, with the scores as weights",
	endpointpicker.RandomPicker:         "drawn, whatever the scores",
	endpointpicker.PowerOfTwoPicker:     "the higher score of two that are drawn",
}

func choiceText(choice string) string {
	if choice == "" {
		return ""
	}
	return fmt.Sprintf(" by %s (%s)", choice, choiceTexts[choice])
}

func drawnText(compared []picker.Choice) string {
	var texts []string
	for _, c := range compared {
		if c.Drawn {
			texts = append(texts, c.Address)
		}
	}
	return strings.Join(texts, " ")
}

func excessText(x schedule.Excess) string {
	text := fmt.Sprintf("%s %s: %s", x.Limit, amount(x.Max, x.Unit), amount(x.Value, x.Unit))
	switch {
	case x.Endpoints == 1:
		text += " at one endpoint"
	case x.Endpoints > 1:
		text += fmt.Sprintf(" or more at %d endpoints", x.Endpoints)
	case x.Endpoint != "":
		text += " predicted at " + x.Endpoint
	}
	return text
}

func amount(n float64, unit string) string {
	return strings.TrimSpace(strconv.FormatFloat(math.Round(n*1000)/1000, 'f', -1, 64) + " " + unit)
}

var trialTexts = map[string]string{"speed": "its speed was learned long ago: the request tries it",
	"due": "suspect: the request tries it"}

func comparedText(c picker.Choice, first bool) string {
	if c.Basis != "" && c.Cost != nil {
		return clusterText(picker.ClusterCost{Cluster: c.Address, Cost: *c.Cost, Wait: c.Wait, Prompt: c.Prompt,
			RoundTrip: c.RoundTrip, Margin: c.Margin, Basis: c.Basis, Barred: c.Barred, Session: c.Session,
			Cached: c.Cached})
	}
	var parts []string
	switch {
	case c.Cost != nil:
		parts = append(parts, fmt.Sprintf("cost %.3f", *c.Cost))
	case c.Score != nil:
		parts = append(parts, fmt.Sprintf("score %.3f", *c.Score))
	}
	if c.Cached > 0 {
		parts = append(parts, counted(c.Cached, "token")+" cached")
	}
	if c.Rate > 0 {
		parts = append(parts, rateText(c.Rate, c.RateFrom))
	}
	switch {
	case c.Speed:
		parts = append(parts, trialTexts["speed"])
	case c.Trial && first:
		parts = append(parts, trialTexts["due"])
	case c.Trial:
		parts = append(parts, "suspect: the next request may try it")
	}
	if len(parts) == 0 {
		return c.Address
	}
	return c.Address + ": " + strings.Join(parts, ", ")
}

func rateText(rate float64, from endpoint.RateSource) string {
	return fmt.Sprintf("reads %.0f tokens/s (%s)", rate, from)
}

func labelled(label, text string) string {
	if text == "" {
		return ""
	}
	return label + " " + text
}

func outcomeText(o picker.Outcome) string {
	text := "in flight"
	if o.Ended {
		text = fmt.Sprintf("ended after %.3f s", o.Took.Seconds())
	}
	if o.Status != 0 {
		text += fmt.Sprintf(", status %d", o.Status)
	}
	if o.Served != "" {
		text += ", served by " + listText(o.Served)
	}
	if o.Headers > 0 {
		text += fmt.Sprintf(", headers after %.3f s", o.Headers.Seconds())
	}
	if o.Begun > 0 {
		text += fmt.Sprintf(", first byte after %.3f s", o.Begun.Seconds())
	}
	if o.Canceled {
		text += ", canceled by the client"
	}
	return text
}

func pickedText(v schedule.Verdict, first bool) string {
	trial := trialTexts[v.Trial]
	if first && trial != "" {
		v.Trial = ""
	}
	text := verdictText(v)
	if first && trial != "" {
		text += "; " + trial
	}
	if v.Cached > 0 {
		text += "; " + counted(v.Cached, "token") + " cached"
	}
	return text
}
