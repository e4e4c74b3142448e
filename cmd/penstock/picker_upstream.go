package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// upstreamFlags are flags of llm-d's EPP (v0.8 to v0.10) in manifests. Here they have no effect, or
// are errors.
type upstreamFlags struct{}

type upstreamFlag struct {
	name  string
	value string
	why   string
	// instead makes any value except the field value an error.
	instead bool
	isBool  bool
}

var upstream = []upstreamFlag{
	{name: "ha-enable-leader-election", value: "false", isBool: true, why: "every replica picks, and none leads"},
	{name: "health-checking", value: "true", isBool: true, why: "the picker's port always answers health checks"},
	{name: "enable-pprof", value: "true", isBool: true, why: "profiles are served on the socket of --state alone"},
	{name: "enable-cert-reload", value: "true", isBool: true,
		why: "the certificate is always read again for each connection"},
	{name: "metrics-endpoint-auth", value: "false", isBool: true,
		why: "/metrics has no content of requests and is served to every client: restrict the port by a NetworkPolicy"},
	{name: "enable-grpc-stream-metrics", value: "false", isBool: true,
		why: "penstock_picker_pick_seconds and penstock_picker_open_leases measure calls"},
	{name: "emit-endpoint-scores", value: "false", isBool: true,
		why: "penstock explain --why shows what a pick compared"},
	{name: "allow-experimental-plugins", value: "false", isBool: true,
		why: "each plugin that is supported is allowed; others are reported by name"},
	{name: "grpc-max-recv-msg-size", why: "the largest message is 33Mi"},
	{name: "grpc-max-send-msg-size", why: "a message sent has 64Ki at most"},
	{
		name: "refresh-metrics-interval",
		why: "metrics pages are read as often as picks need, up to 20 times a second; pages of an idle pool " +
			"are not read",
	},
	{name: "refresh-prometheus-metrics-interval", why: "metrics are computed when they are read"},
	{name: "metrics-staleness-threshold", why: "what a page shows ages continuously in the cost of a server"},
	{name: "zap-devel", isBool: true, why: "logs have one form; see --zap-encoder"},
	{name: "zap-stacktrace-level", why: "logs have no stack traces, except for panics"},
	{name: "zap-time-encoding", why: "times have the form of RFC 3339"},
	{name: "total-queued-requests-metric", value: "vllm:num_requests_waiting", instead: true,
		why: "spec.picker.metrics.queue of a PoolPolicy for the pool"},
	{name: "total-running-requests-metric", value: "vllm:num_requests_running", instead: true,
		why: "spec.picker.metrics.running of a PoolPolicy for the pool"},
	{name: "kv-cache-usage-percentage-metric", value: "vllm:kv_cache_usage_perc", instead: true,
		why: "spec.picker.metrics.kvCache of a PoolPolicy for the pool"},
	{name: "lora-info-metric", value: "vllm:lora_requests_info", instead: true,
		why: "spec.picker.metrics.engine of a PoolPolicy for the pool; each engine's own metric of adapters is read"},
	{name: "cache-info-metric", value: "vllm:cache_config_info", instead: true,
		why: "spec.picker.metrics.engine of a PoolPolicy for the pool; each engine's own metric of its cache is read"},
	{name: "model-server-metrics-port", instead: true, why: "spec.picker.metrics.port of a PoolPolicy for the pool"},
	{name: "metrics-client-ca-file", instead: true, why: "a NetworkPolicy for the metrics port, which has no TLS"},
	{name: "metrics-cert-dir", instead: true, why: "a NetworkPolicy for the metrics port, which has no TLS"},
}

type pageFlags struct {
	scheme, path string
	unverified   bool
}

func (p *pageFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&p.scheme, "model-server-metrics-scheme", "http", "of llm-d's EPP: http or https, for the metrics "+
		"pages of the model servers; a BackendTLSPolicy for the InferencePool comes first, and verifies")
	f.StringVar(&p.path, "model-server-metrics-path", "", "of llm-d's EPP: path of the metrics pages; "+
		"spec.picker.metrics.path of a PoolPolicy comes first (default: the engine's)")
	f.BoolVar(&p.unverified, "model-server-metrics-https-insecure-skip-verify", true, "of llm-d's EPP: with https, do "+
		"not verify the model servers; false is an error: a BackendTLSPolicy for the InferencePool verifies them")
}

func (p *pageFlags) source() (none endpointpicker.PageSource, _ error) {
	const verify = "--model-server-metrics-https-insecure-skip-verify=false is not supported: remove it, " +
		"and write a BackendTLSPolicy for the InferencePool"
	switch {
	case p.scheme != "http" && p.scheme != "https":
		return none, fmt.Errorf("--model-server-metrics-scheme %q: write http or https", p.scheme)
	case p.scheme == "https" && !p.unverified:
		return none, errors.New(verify)
	case p.path != "" && !strings.HasPrefix(p.path, "/"):
		return none, fmt.Errorf("--model-server-metrics-path %q: write a path that begins with /", p.path)
	}
	return endpointpicker.PageSource{Path: p.path, TLS: p.scheme == "https"}, nil
}

func (upstreamFlags) flags(f *pflag.FlagSet) {
	for _, u := range upstream {
		help := "of llm-d's EPP; no effect: " + u.why
		if u.instead {
			help = "of llm-d's EPP; an error: write " + u.why
		}
		if u.isBool {
			value, _ := strconv.ParseBool(u.value)
			f.Bool(u.name, value, help)
		} else {
			f.String(u.name, "", help)
		}
	}
}

func (upstreamFlags) check(cmd *cobra.Command, log *slog.Logger) error {
	for _, u := range upstream {
		f := cmd.Flags().Lookup(u.name)
		switch {
		case !f.Changed || f.Value.String() == u.value:
		case u.instead:
			return fmt.Errorf("--%s is not supported: remove it, and write %s", u.name, u.why)
		default:
			log.Warn("a flag has no effect", "flag", "--"+u.name, "reason", u.why)
		}
	}
	return nil
}

type pickerLogs struct {
	level, zapLevel, encoder string
	verbosity                int
}

func (l *pickerLogs) flags(f *pflag.FlagSet) {
	f.StringVar(&l.level, "log-level", "info", "lowest level that is logged: debug, info, warn or error")
	f.StringVar(&l.zapLevel, "zap-log-level", "",
		"of llm-d's EPP: debug, info, error, panic, or a number, of which 4 and above are debug (default: --log-level)")
	f.IntVarP(&l.verbosity, "v", "v", 0, "of llm-d's EPP: 4 and above log at level debug")
	f.StringVar(&l.encoder, "zap-encoder", "console", "form of logs: json or console (key=value)")
}

// debugVerbosity is the klog verbosity at which llm-d's EPP begins to log requests.
const debugVerbosity = 4

func (l *pickerLogs) logger(out io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: write debug, info, warn or error", l.level)
	}
	switch n, err := strconv.Atoi(l.zapLevel); {
	case l.zapLevel == "":
	case err == nil && n >= debugVerbosity, l.zapLevel == "debug":
		level = slog.LevelDebug
	case err == nil && n >= 0, l.zapLevel == "info":
		level = slog.LevelInfo
	case l.zapLevel == "error", l.zapLevel == "panic":
		level = slog.LevelError
	default:
		return nil,
			fmt.Errorf("--zap-log-level %q: write debug, info, error, panic, or a number of 0 or more", l.zapLevel)
	}
	if l.verbosity >= debugVerbosity {
		level = slog.LevelDebug
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: bounded}
	switch l.encoder {
	case "json":
		return slog.New(newRepeats(slog.NewJSONHandler(out, options))), nil
	case "console":
		return slog.New(newRepeats(slog.NewTextHandler(out, options))), nil
	}
	return nil, fmt.Errorf("--zap-encoder %q: write json or console", l.encoder)
}
