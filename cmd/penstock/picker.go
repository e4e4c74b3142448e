package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/xds/admission/ports"
)

type standAlone struct {
	files
	kubeconfig, bind                string
	grpcPort, healthPort, pagesPort uint16
	pool, namespace, group          string
	selector                        string
	ports                           []uint
	configFile, configText          string
	tls                             pickerTLS
	protocol                        picker.Protocol
	drain                           time.Duration
	stop                            stopFlags
	tracing                         bool
	heldBodies                      resource.QuantityValue
	memory                          resource.QuantityValue
	addresses                       addressFlags
	peers                           peerFlags
	logs                            pickerLogs
	upstream                        upstreamFlags
	pages                           pageFlags
}

func newPicker() *cobra.Command {
	var s standAlone
	cmd := &cobra.Command{
		Use:   "picker",
		Short: "Run the endpoint picker (EPP) alone, for a gateway that Penstock does not configure",
		Long: `Run the endpoint picker alone, for one InferencePool and for gateways that Penstock does not configure:
Envoy Gateway, Istio, kgateway, GKE, or a bare Envoy. It speaks the endpoint picker protocol (ext_proc) at port 9002,
gRPC health checks at 9003, and serves metrics at 9090.

It takes the place of llm-d's EPP: it has the same flags, and reads the same EndpointPickerConfig. A flag of llm-d's
that has no effect here is accepted and logged. Flags without a command are for this command, so the image can replace
an EPP's and keep its arguments.

In a pod, or with --kubeconfig, the pool and its pods are read from the cluster; with -f from files, as penstock serve
reads them. The pool's endpointPickerRef is ignored. The port serves TLS to every client, with a certificate made at
the start, as llm-d's EPP does: --cert-path and --client-ca change that.

When it ends, health checks fail for --drain-timeout while it still picks, so that gateways ask another replica.`,
		Example: `  # The only pool in a folder, for an Envoy on this machine
  penstock picker -f ./config --bind-address 127.0.0.1 --secure-serving=false

  # In a pod: what llm-d's manifests state
  penstock picker --pool-name vllm-qwen --pool-namespace default --config-file /config/default-plugins.yaml`,
		Args: onlyEmpty,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.run(cmd) },
	}
	f := cmd.Flags()
	s.files.flags(cmd, "required without --kubeconfig, except in a pod")
	kubeconfigFlag(f, &s.kubeconfig)
	f.StringVar(&s.bind, "bind-address", "", "IP address of all ports (default: every address)")
	f.Uint16Var(&s.grpcPort, "grpc-port", 9002, "port of the endpoint picker protocol; 0 is any free port")
	f.Uint16Var(&s.healthPort, "grpc-health-port", 9003, "port of gRPC health checks, without TLS; 0 is any free port")
	f.Uint16Var(&s.pagesPort, "metrics-port", 9090,
		"port of /metrics, /healthz and /readyz, for every client that reaches it; 0 is any free port")
	f.StringVar(&s.pool, "pool-name", "",
		"name of the InferencePool, or NAMESPACE/NAME (default: the only one of the files)")
	f.StringVar(&s.namespace, "pool-namespace", "", "namespace of the InferencePool (default: the environment's "+
		"NAMESPACE, else the pod's or the kubeconfig's, else default)")
	f.StringVar(&s.group, "pool-group", store.InferencePools.Group(),
		"API group of the InferencePool on Kubernetes, "+store.InferencePools.Group()+" or "+inferenceapi.Group)
	f.StringVar(&s.selector, "endpoint-selector", "", "labels of the model servers' pods, in place of an "+
		"InferencePool, as KEY=VALUE,KEY=VALUE; requires --endpoint-target-ports (default: none)")
	f.UintSliceVar(&s.ports, "endpoint-target-ports", nil,
		"ports of the model servers of --endpoint-selector, one to eight (default: none)")
	f.StringVar(&s.configFile, "config-file", "", "file with the EndpointPickerConfig, whose plugins pick; read again "+
		"when it changes (default: the strategy of the pool's PoolPolicy, else load)")
	f.StringVar(&s.configText, "config-text", "",
		"the EndpointPickerConfig itself, in place of --config-file (default: none)")
	s.tls.flags(f)
	protocolFlags(f, &s.protocol)
	f.DurationVar(&s.drain, "drain-timeout", 30*time.Second, "how long the picker still picks after it was asked to "+
		"end, while its health checks fail (default for files: 0)")
	s.stop.flags(f)
	f.BoolVar(&s.tracing, "tracing", true, "send spans where the environment has an OpenTelemetry endpoint (OTEL_*)")
	s.heldBodies.Quantity = *resource.NewQuantity(extproc.DefaultBodies, resource.BinarySI)
	f.Var(&s.heldBodies, "picker-held-bodies", "largest sum of the request bodies that the picker holds at one time, "+
		"as a quantity; beyond it, endpoints are picked by load alone")
	memoryFlag(f, &s.memory)
	s.addresses.flags(cmd)
	s.peers.flags(cmd)
	s.logs.flags(f)
	s.upstream.flags(f)
	s.pages.flags(f)
	return cmd
}

func protocolFlags(f *pflag.FlagSet, protocol *picker.Protocol) {
	f.StringVar(&protocol.Destination, flagDestination, extproc.DefaultNames().Destination,
		"header and metadata key by which a pick names endpoints")
	f.StringVar(&protocol.Namespace, flagNamespace, extproc.DefaultNames().Namespace,
		"metadata namespace of a pick, and of the endpoint that served")
	f.StringVar(&protocol.Subset, flagSubset, extproc.DefaultNames().Subset,
		"metadata namespace of the endpoints among which a gateway has the picker choose")
	f.BoolVar(&protocol.IgnoreSubset, "disable-endpoint-subset-filter", false,
		"pick among all endpoints, whatever subset a gateway sends")
	f.BoolVar(&protocol.Conformance, "conformance", false,
		"obey the request header test-epp-endpoint-selection, and send x-conformance-test-served-endpoint, for the "+
			"conformance suite of the inference extension: every client may then choose its endpoint")
}

// onlyEmpty ignores empty arguments, because templates such as KServe's render an unset flag as "".
func onlyEmpty(cmd *cobra.Command, args []string) error {
	return cobra.NoArgs(cmd, slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "" }))
}

func withCommand(root *cobra.Command, args []string) []string {
	first := slices.IndexFunc(args, func(arg string) bool { return arg != "" })
	if first < 0 || !strings.HasPrefix(args[first], "--") {
		return args
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(args[first], "--"), "=")
	cmd, _, err := root.Find([]string{"picker"})
	if err != nil || root.Flags().Lookup(name) != nil || cmd.Flags().Lookup(name) == nil {
		return args
	}
	return append([]string{"picker"}, args[first:]...)
}

func (s *standAlone) run(cmd *cobra.Command) error {
	log, err := s.logs.logger(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if err := s.stop.check(); err != nil {
		return err
	}
	if err := s.upstream.check(cmd, log); err != nil {
		return err
	}
	role, err := s.role(cmd, log)
	if err != nil {
		return err
	}
	if !s.tracing {
		if err := os.Setenv("OTEL_SDK_DISABLED", "true"); err != nil {
			return err
		}
	}
	t, err := newTelemetry(cmd.Context())
	if err != nil {
		return err
	}
	defer t.end()
	cfg, err := s.config(cmd.Context(), role, log, t)
	if err != nil {
		return err
	}
	p, err := app.NewStandAlone(cfg, *role)
	if err != nil {
		return err
	}
	pool := "(the only one)"
	if !role.Pool.IsZero() {
		pool = role.Pool.String()
	}
	log.Info("picking", "pool", pool, "picker", cfg.Picker.Addr(), "health", role.Health.Addr(), "metrics",
		cfg.HTTP.Addr())
	defer s.stop.announce(cmd.Context(), cmd.ErrOrStderr(), func() {})()
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error { return p.Run(ctx) })
	group.Go(func() error { return printFindings(ctx, p.Board(), cmd.ErrOrStderr()) })
	return group.Wait()
}

func (s *standAlone) role(cmd *cobra.Command, log *slog.Logger) (*app.StandAlone, error) {
	out := &app.StandAlone{Paths: s.paths, Group: s.group, Protocol: s.protocol, Drain: s.drain}
	source, err := s.pages.source()
	if err != nil {
		return nil, err
	}
	out.Source = source
	out.Protocol.Duplex, out.Protocol.Upstream, out.Protocol.OnePool = true, true, true
	if err := checkNames(s.protocol.Names); err != nil {
		return nil, err
	}
	namespace := ""
	switch cluster := s.kubeconfig != "" || len(s.paths) == 0 && os.Getenv("KUBERNETES_SERVICE_HOST") != ""; {
	case cluster && len(s.paths) > 0:
		return nil, errors.New("objects come from files or from a cluster: remove -f or --kubeconfig")
	case cluster:
		if out.REST, namespace, err = clusterAt(&s.tls.disk, s.kubeconfig); err != nil {
			return nil, err
		}
	case len(s.paths) == 0:
		return nil, errNoFiles
	case !cmd.Flags().Changed("drain-timeout"):
		out.Drain = 0
	}
	if s.drain < 0 {
		return nil, fmt.Errorf("--drain-timeout %s: write a duration of 0 or more, such as 30s", s.drain)
	}
	if !slices.Contains([]string{store.InferencePools.Group(), inferenceapi.Group}, s.group) {
		return nil,
			fmt.Errorf("--pool-group %q: write %s or %s", s.group, store.InferencePools.Group(), inferenceapi.Group)
	}
	namespace = cmp.Or(s.namespace, os.Getenv("NAMESPACE"), namespace, metav1.NamespaceDefault)
	if out.Pool, err = s.poolID(namespace); err != nil {
		return nil, err
	}
	if s.selector != "" || len(s.ports) > 0 {
		if out.Own, err = s.own(namespace); err != nil {
			return nil, err
		}
		out.Pool = objectid.PoolOf(out.Own)
	}
	if out.Pool.IsZero() && out.REST != nil {
		return nil, errors.New("--pool-name is required on Kubernetes: write the InferencePool's name, or use " +
			"--endpoint-selector and --endpoint-target-ports")
	}
	switch {
	case s.configFile != "" && s.configText != "":
		return nil, errors.New("--config-file and --config-text exclude each other: remove one")
	case s.configFile != "" || s.configText != "":
		if out.Document, err = app.ReadDocument(&s.tls.disk, s.configFile, s.configText, log); err != nil {
			return nil, fmt.Errorf("%s: %w", map[bool]string{true: "--config-file",
				false: "--config-text"}[s.configFile != ""], err)
		}
	}
	out.TLS, err = s.tls.config()
	return out, err
}

const (
	flagDestination = "destination-endpoint-hint-key"
	flagNamespace   = "destination-endpoint-hint-metadata-namespace"
	flagSubset      = "destination-endpoint-subset-metadata-namespace"
)

var (
	headerName    = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$") // a token of RFC 9110, section 5.6.2
	namespaceName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)             // PoolPolicy's pattern
)

// checkNames returns an error for a name with which Envoy would answer each request with 500.
func checkNames(n extproc.Names) error {
	if !headerName.MatchString(n.Destination) {
		return fmt.Errorf("--%s %q: write the name of a header, 1 to 128 letters, digits and dashes, such as %s",
			flagDestination, n.Destination, extproc.DefaultNames().Destination)
	}
	if n.Reserved() {
		return fmt.Errorf("--%s %q: this header has a meaning of its own for gateways: write another, such as %s",
			flagDestination, n.Destination, extproc.DefaultNames().Destination)
	}
	for flag, name := range map[string]string{flagNamespace: n.Namespace, flagSubset: n.Subset} {
		if !namespaceName.MatchString(name) {
			return fmt.Errorf("--%s %q: write the name of a metadata namespace, 1 to 128 letters, digits, dots, "+
				"dashes and underscores, such as %s", flag, name, extproc.DefaultNames().Namespace)
		}
	}
	return nil
}

func (s *standAlone) poolID(namespace string) (objectid.Pool, error) {
	switch {
	case s.pool == "":
		return objectid.Pool{}, nil
	case s.selector != "":
		return objectid.Pool{}, errors.New("--pool-name and --endpoint-selector exclude each other: remove one")
	case !strings.Contains(s.pool, "/"):
		return objectid.Pool{Namespace: namespace, Name: s.pool}, nil
	}
	pool, ok := objectid.ParsePool(s.pool)
	if !ok {
		return pool, fmt.Errorf("--pool-name %q: write the InferencePool's name, or NAMESPACE/NAME", s.pool)
	}
	return pool, nil
}

func (s *standAlone) own(namespace string) (*inferencev1.InferencePool, error) {
	if s.selector == "" || len(s.ports) == 0 || len(s.ports) > 8 {
		return nil,
			errors.New("--endpoint-selector and --endpoint-target-ports require each other, with one to eight ports")
	}
	out := &inferencev1.InferencePool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "endpoint-selector"}}
	out.Spec.Selector.MatchLabels = map[inferencev1.LabelKey]inferencev1.LabelValue{}
	for pair := range strings.SplitSeq(s.selector, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(pair), "=")
		value = strings.TrimPrefix(value, "=")
		if !ok || key == "" || strings.ContainsAny(key+value, " !()=") {
			return nil, fmt.Errorf("--endpoint-selector %q: write KEY=VALUE,KEY=VALUE; sets and inequalities are not "+
				"supported, as in an InferencePool", s.selector)
		}
		out.Spec.Selector.MatchLabels[inferencev1.LabelKey(key)] = inferencev1.LabelValue(value)
	}
	for _, port := range s.ports {
		if port < 1 || port > 65535 {
			return nil, fmt.Errorf("--endpoint-target-ports %d: write ports from 1 to 65535", port)
		}
		out.Spec.TargetPorts = append(out.Spec.TargetPorts, inferencev1.Port{Number: inferencev1.PortNumber(port)})
	}
	return out, nil
}

// config opens the listeners, which the app closes when it ends.
func (s *standAlone) config(ctx context.Context, role *app.StandAlone, log *slog.Logger, t *telemetry) (cfg app.Config,
	err error) {
	if s.bind != "" {
		if _, err := netip.ParseAddr(s.bind); err != nil {
			return cfg, fmt.Errorf("--bind-address %q: write an IP address, such as 127.0.0.1", s.bind)
		}
	}
	if role.REST == nil || s.state != "" {
		// penstock serve may run for the same files, so the picker has its own folder.
		if cfg.StateDir, err = s.openState("-picker"); err != nil {
			return cfg, err
		}
	}
	cfg.Disk = &s.tls.disk
	if cfg.Peers, err = s.peers.config(ctx, &s.tls.disk); err != nil {
		return cfg, err
	}
	if err := s.trustPeers(cfg.Peers); err != nil {
		return cfg, err
	}
	if cfg.HeldBodies, err = positive("--picker-held-bodies", &s.heldBodies); err != nil {
		return cfg, err
	}
	if cfg.Addresses, err = s.addresses.config(role.REST != nil); err != nil {
		return cfg, err
	}
	if cfg.Processor, err = defaultProcessor(); err != nil {
		return cfg, err
	}
	for _, l := range []struct {
		kind ports.Port
		flag string
		port uint16
		at   *net.Listener
	}{
		{ports.Picker, "--grpc-port", s.grpcPort, &cfg.Picker},
		{ports.Health, "--grpc-health-port", s.healthPort, &role.Health},
		{ports.Pages, "--metrics-port", s.pagesPort, &cfg.HTTP},
	} {
		*l.at, err = listen(ctx, nil, l.kind, l.flag, net.JoinHostPort(s.bind, strconv.Itoa(int(l.port))))
		if err != nil {
			return cfg, err
		}
	}
	cfg.StopTimeout = s.stop.timeout
	cfg.Memory, cfg.Log, cfg.Tracer = s.memory.Value(), log, t.provider
	return cfg, nil
}

func (s *standAlone) trustPeers(p app.Peers) error {
	if len(p.Addresses) > 0 && p.Listener == nil {
		return errors.New("--peers requires --peers-listen: this process serves no ADS, whose port peers would use")
	}
	return authenticated(p)
}
