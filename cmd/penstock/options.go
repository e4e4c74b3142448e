package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/state"
	"github.com/penstock-project/penstock/discovery/file"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/recording"
	"github.com/penstock-project/penstock/xds/admission/ports"
)

// errNoFiles is the error for a missing -f. No default exists, because any folder may have
// unrelated files.
var errNoFiles = errors.New("no files are named: add -f FOLDER")

type files struct {
	paths []string
	state string
	// sockets is nil for commands that cannot be replaced in place.
	sockets *ports.Sockets
}

func (s *files) flags(cmd *cobra.Command, required string) {
	cmd.Flags().StringArrayVarP(&s.paths, "file", "f", nil,
		"folder (read recursively) or file with YAML or JSON; may be repeated ("+required+")")
	cmd.Flags().StringVar(&s.state, "state", "", "folder for the last good versions of objects, the status, and the "+
		"socket for other commands. It must belong to the user that runs penstock, with mode 0700, which an empty one "+
		"is given (default: one for the given files, below $XDG_STATE_HOME/penstock)")
}

func (s *files) exist() error {
	if s.state != "" {
		return nil
	}
	return file.Exist(s.paths...)
}

func (s *files) stateDir() (string, error) {
	if len(s.paths) == 0 && s.state == "" {
		return "", errNoFiles
	}
	if s.state != "" {
		return filepath.Abs(s.state)
	}
	home, err := state.Home()
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	for _, p := range slices.Sorted(slices.Values(s.paths)) {
		abs, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		if real, err := filepath.EvalSymlinks(abs); err == nil {
			abs = real
		}
		_, _ = h.Write([]byte(abs + "\x00"))
	}
	return filepath.Join(home, fmt.Sprintf("%016x", h.Sum64())[:8]), nil
}

func (s *files) openState(suffix string) (dir string, err error) {
	if dir, err = s.stateDir(); err != nil {
		return "", err
	}
	if s.state == "" {
		dir += suffix
	}
	if err := state.Open(dir); err != nil {
		return "", err
	}
	if s.sockets.Has(ports.Local, "unix", app.Socket(dir)) { // this process served the folder before it was replaced
		return dir, nil
	}
	return dir, app.Unserved(dir)
}

type service struct {
	files
	xds, picker     string
	pickerPort      string // default of --picker if Envoys cannot use a socket
	http, admin     string
	pickerAddresses []string
	defaultPool     string
	offers          []string
	heldBodies      resource.QuantityValue
	kvEvents        string
	record          string
	recordBytes     resource.QuantityValue
	accessLog       string
	usageDB         string
	fetchHosts      []string
	drainTime       time.Duration
	stop            stopFlags
	logLevel        string
	secure          secure
	members         string
	membersAddress  string
	local           bool // always serve this user's Envoys at a socket
	runtime         string
	temporary       bool         // runtime is a temporary folder
	replacement     *replacement // nil if no program can replace this one
	devices         int          // accelerators, if no program lists them
	modelsLimit     int64        // in GiB, for all downloaded models; 0 means no limit
	// phaseLine formats a ModelDeployment's phase for the terminal; "" prints nothing.
	phaseLine func(id, phase, message string) string
	peers     app.Peers
	addresses addressFlags
	cluster   bool
	replicas  bool
	fleet     bool // EnvoyFleets run, which make their own credentials
}

func (s *service) flags(cmd *cobra.Command, picker, logLevel string) {
	required := "required"
	if !s.local {
		required = "required without --kubeconfig, except in a pod"
	}
	s.files.flags(cmd, required)
	f := cmd.Flags()
	f.StringVar(&s.xds, "xds", "", "address on which ADS is served: HOST:PORT, which requires --xds-cert, because ADS "+
		"has private keys (port 0 is any free port), or unix:PATH, a socket that only this user can open (default: "+
		"the socket "+socketOfADS+" in the state folder)")
	s.pickerPort = picker
	f.StringVar(&s.picker, "picker", "", "address on which the endpoint picker (ext_proc) is served, as HOST:PORT, "+
		"also for gateways of others (port 0 is any free port), or unix:PATH, which only this user reaches (default: "+
		"the socket "+socketOfPicker+" in the state folder; with --xds HOST:PORT, --xds-cert, --members-listen or "+
		"--offer "+picker+")")
	f.StringSliceVar(&s.pickerAddresses, "picker-address", nil,
		"address at which Envoys reach the picker, as IP:PORT or unix:PATH; may be repeated (default: --picker)")
	f.StringVar(&s.http, "http", "", "address on which /metrics, /healthz and /readyz are served, as HOST:PORT; a "+
		"loopback address also serves the pages of --admin (default: none)")
	f.StringVar(&s.admin, "admin", "", "address on which /status, /proxies, /explain and /debug/... are served, which "+
		"show every object to every client: choose a loopback address such as 127.0.0.1:9091. The URL has localhost "+
		"or an IP address: requests by another host name are denied (default: none)")
	s.addresses.flags(cmd)
	f.StringVar(&s.members, "members-listen", "", "address on which other members of the ClusterSet subscribe to the "+
		"pools that this cluster exports, over mTLS, as HOST:PORT (default: none)")
	f.StringVar(&s.membersAddress, "members-address", "",
		"address at which members reach it, as HOST:PORT (default: --members-listen)")
	f.StringVar(&s.defaultPool, "default-pool", "",
		"pool for picks of gateways that name none, as NAMESPACE/NAME (default: the only pool)")
	f.StringArrayVar(&s.offers, "offer", nil, "exported pool that gateways other than Penstock's may use, too, as "+
		"NAMESPACE/NAME=PORT: the import then has a port of the picker that serves picks from this pool alone. Port 0 "+
		"is any free port. For ParentMode write NAMESPACE/NAME: the import has the Gateways' ordinary addresses. May "+
		"be repeated (default: none; with one pool, or --default-pool, the port of --picker serves it)")
	s.heldBodies.Quantity = *resource.NewQuantity(extproc.DefaultBodies, resource.BinarySI)
	f.Var(&s.heldBodies, "picker-held-bodies", "largest sum of the request bodies that the picker holds at one time, "+
		"as a quantity; beyond it, endpoints are picked by load alone, and a request gets 503 if an external picker "+
		"or a processor must read it, or its model is replaced")
	f.StringVar(&s.kvEvents, "picker-kv-events", "", "address at which model servers connect to publish their KV "+
		"events over ZeroMQ, as HOST:PORT, for pools whose PoolPolicy has picker.kvEvents.mode Listen; other IP "+
		"addresses than the model servers' are rejected (default: none)")
	f.StringVar(&s.record, "record", "", "file to which the picker writes each request whose prompt it reads, without "+
		"the prompt, as a JSON line for penstock replay; the old file becomes FILE.1 (default: none)")
	s.recordBytes.Quantity = *resource.NewQuantity(1<<30, resource.BinarySI)
	f.Var(&s.recordBytes, "record-bytes",
		"largest size of the file of --record and of FILE.1 together, as a quantity; a full file replaces FILE.1")
	f.StringVar(&s.accessLog, "access-log", "",
		"file to which Envoys log each request as JSON, such as /dev/stdout (default: none)")
	f.StringVar(&s.usageDB, "usage-db", "",
		"file with the URL of a PostgreSQL database, such as postgres://USER:PASSWORD@HOST/NAME, to which all "+
			"processes write who used what; it is read again when it changes (default: SQLite in the state folder)")
	f.StringSliceVar(&s.fetchHosts, "fetch-hosts", nil, "host, as HOST or HOST:PORT, from which keys of JSON Web "+
		"Tokens are fetched for AccessPolicies; without a port it is 443; may be repeated. Link-local addresses and "+
		"metadata servers are never fetched from, nor are, in Kubernetes, loopback addresses, and the API server "+
		"unless it is the issuer (default: all for files, none for Kubernetes)")
	f.DurationVar(&s.drainTime, "drain-time", 10*time.Minute,
		"drain time: how long connections may continue after their listener is removed")
	s.stop.flags(f)
	s.secure.flags(f)
	f.StringVar(&s.logLevel, "log-level", logLevel, "lowest level that is logged: debug, info, warn or error")
}

func (s *service) logger(cmd *cobra.Command) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q: write debug, info, warn or error", s.logLevel)
	}
	return slog.New(newRepeats(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level,
		ReplaceAttr: bounded}))), nil
}

func (s *service) newApp(cmd *cobra.Command, build func(app.Config) (*app.App, error)) (p *app.App, cfg app.Config,
	shutdown func(), err error) {
	if cmd.Flags().Changed("record-bytes") && s.record == "" {
		return nil, cfg, nil, errors.New("--record-bytes needs --record: add it, or remove --record-bytes")
	}
	if err := s.stop.check(); err != nil {
		return nil, cfg, nil, err
	}
	log, err := s.logger(cmd)
	if err != nil {
		return nil, cfg, nil, err
	}
	t, err := newTelemetry(cmd.Context())
	if err != nil {
		return nil, cfg, nil, err
	}
	if cfg, err = s.config(cmd.Context(), log, t); err == nil {
		p, err = build(cfg)
	}
	if err != nil {
		if cfg.Local != nil {
			_ = cfg.Local.Close()
		}
		s.tidy(cfg)
	}
	return p, cfg, func() { t.end(); s.tidy(cfg) }, err
}

// listenLocal opens the ADS socket for this user's Envoys. If the state folder is not writable, it
// uses a private temporary folder.
func (s *service) listenLocal(dir string, log *slog.Logger) (net.Listener, error) {
	s.runtime = dir
	path, given := strings.CutPrefix(s.xds, unixPrefix)
	if !given {
		path = filepath.Join(dir, socketOfADS)
	}
	l, err := app.ListenSocket(s.sockets, ports.ADS, path)
	if given && err != nil {
		return nil, fmt.Errorf("--xds: %w", err)
	}
	if !app.Unwritable(err) {
		return l, err
	}
	temporary, failed := os.MkdirTemp("", "penstock-")
	if failed != nil {
		return nil, fmt.Errorf("--state %s: %w; the folder for temporary files takes none either: name a writable "+
			"folder with --state", dir, err)
	}
	s.runtime, s.temporary = temporary, true
	log.Error("the state folder takes no files: Envoys use a temporary folder, and nothing is kept over a restart",
		"error", err, "temporary", temporary)
	return app.ListenSocket(nil, ports.ADS, filepath.Join(temporary, socketOfADS))
}

const (
	socketOfADS    = "xds.sock"
	socketOfPicker = "picker.sock"
	unixPrefix     = "unix:"
)

func ads(cfg app.Config) net.Listener {
	if cfg.XDS != nil {
		return cfg.XDS
	}
	return cfg.Local
}

func addressOf(l net.Listener) string {
	if a := l.Addr(); a.Network() == "unix" {
		return unixPrefix + a.String()
	}
	return l.Addr().String()
}

func (s *service) tidy(cfg app.Config) {
	if s.runtime != "" && s.runtime != cfg.StateDir {
		_ = os.RemoveAll(s.runtime)
	}
}

// config opens the listeners, which the app closes when it ends.
func (s *service) config(ctx context.Context, log *slog.Logger, t *telemetry) (cfg app.Config, err error) {
	switch {
	case s.cluster && s.state == "":
		if s.state, err = clusterState(); err != nil {
			return cfg, err
		}
	case !s.cluster && len(s.paths) == 0:
		return cfg, errNoFiles
	}
	if cfg.StateDir, err = s.openState(""); err != nil {
		return cfg, err
	}
	if err := s.open(ctx, log, &cfg); err != nil {
		return cfg, err
	}
	if err := s.reachPicker(&cfg); err != nil {
		return cfg, err
	}
	if cfg.Addresses, err = s.addresses.config(s.cluster); err != nil {
		return cfg, err
	}
	if cfg.Processor, err = defaultProcessor(); err != nil {
		return cfg, err
	}
	var named bool
	if cfg.DefaultPool, named = objectid.ParsePool(s.defaultPool); !named && s.defaultPool != "" {
		return cfg, fmt.Errorf("--default-pool %q: write NAMESPACE/NAME", s.defaultPool)
	}
	if cfg.HeldBodies, err = positive("--picker-held-bodies", &s.heldBodies); err != nil {
		return cfg, err
	}
	if s.recordBytes.Value() < 1<<20 {
		return cfg, fmt.Errorf("--record-bytes %s: write a quantity of 1Mi or more", s.recordBytes.String())
	}
	if s.record != "" {
		if cfg.Recording, err = recording.Open(s.record, s.recordBytes.Value(), log); err != nil {
			return cfg, fmt.Errorf("--record: %w", err)
		}
	}
	if cfg.UsageDB, err = s.usageURL(); err != nil {
		return cfg, err
	}
	if cfg.Fetch, err = s.fetch(); err != nil {
		return cfg, err
	}
	cfg.AccessLog, cfg.DrainTime, cfg.StopTimeout, cfg.Log = s.accessLog, s.drainTime, s.stop.timeout, log
	cfg.Tracer, cfg.Collector, cfg.Sampling = t.provider, t.collector, t.sampling
	cfg.Sockets, cfg.Replaces = s.sockets, s.replacement != nil && s.replacement.earlier != nil
	return cfg, nil
}

var fetchHost = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

func (s *service) fetch() (app.Fetch, error) {
	for _, host := range s.fetchHosts {
		if !fetchHost.MatchString(host) {
			return app.Fetch{}, fmt.Errorf("--fetch-hosts %q: write a host such as sso.example.com, or HOST:PORT", host)
		}
	}
	return app.Fetch{Hosts: s.fetchHosts, AnyHost: !s.cluster && len(s.fetchHosts) == 0}, nil
}

// usageURL returns a function that reads the file of --usage-db; nil without the flag.
func (s *service) usageURL() (func() (string, error), error) {
	if s.usageDB == "" {
		return nil, nil
	}
	read := func() (string, error) {
		raw, err := s.secure.disk.Read(s.usageDB)
		if err != nil {
			return "", fmt.Errorf("--usage-db: %w", err)
		}
		text := strings.TrimSpace(string(raw))
		if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
			return "", fmt.Errorf("--usage-db %s: write one URL that begins with postgres://", s.usageDB)
		}
		return text, nil
	}
	_, err := read()
	return read, err
}

func positive(flag string, q *resource.QuantityValue) (int64, error) {
	if q.Value() < 1 {
		return 0, fmt.Errorf("%s %s: write a positive quantity, such as 256Mi", flag, q.String())
	}
	return q.Value(), nil
}

func (s *service) open(ctx context.Context, log *slog.Logger, cfg *app.Config) (err error) {
	tcp := s.xds != "" && !strings.HasPrefix(s.xds, unixPrefix)
	if s.local || !tcp {
		if cfg.Local, err = s.listenLocal(cfg.StateDir, log); err != nil {
			return err
		}
	}
	if tcp {
		if cfg.XDS, err = listen(ctx, s.sockets, ports.ADS, "--xds", s.xds); err != nil {
			return err
		}
	}
	if s.picker == "" {
		if s.picker = s.pickerPort; !tcp && s.secure.cert == "" && s.members == "" && len(s.offers) == 0 {
			s.picker = unixPrefix + filepath.Join(s.runtime, socketOfPicker)
		}
	}
	if cfg.Picker, err = listen(ctx, s.sockets, ports.Picker, "--picker", s.picker); err != nil {
		return err
	}
	if cfg.Offers, err = s.offered(ctx); err != nil {
		return err
	}
	if err := s.authenticate(cfg, log); err != nil {
		return err
	}
	for _, l := range []struct {
		port          ports.Port
		flag, address string
		at            *net.Listener
	}{
		{ports.Pages, "--http", s.http, &cfg.HTTP},
		{ports.Admin, "--admin", s.admin, &cfg.Admin},
		{ports.Events, "--picker-kv-events", s.kvEvents, &cfg.KVEvents},
	} {
		if l.address == "" {
			continue
		}
		if *l.at, err = listen(ctx, s.sockets, l.port, l.flag, l.address); err != nil {
			return err
		}
	}
	if s.members != "" && s.cluster {
		cfg.Members.Listen = func(ctx context.Context) (net.Listener, error) {
			return listen(ctx, s.sockets, ports.Members, "--members-listen", s.members)
		}
		cfg.Members.Address = cmp.Or(s.membersAddress, s.members)
	} else if s.members != "" {
		cfg.Members.Listener, err = listen(ctx, s.sockets, ports.Members, "--members-listen", s.members)
		if err != nil {
			return err
		}
		cfg.Members.Address = cmp.Or(s.membersAddress, cfg.Members.Listener.Addr().String())
	}
	return nil
}

func (s *service) reachPicker(cfg *app.Config) error {
	for _, a := range s.pickerAddresses {
		if path, ok := strings.CutPrefix(a, unixPrefix); ok {
			if err := absolute(&path); err != nil {
				return err
			}
			cfg.PickerSockets = append(cfg.PickerSockets, path)
			continue
		}
		addr, err := netip.ParseAddrPort(a)
		if err != nil {
			return fmt.Errorf(
				"--picker-address %q: write IP:PORT or unix:PATH, because Envoy dials IP addresses and sockets only", a)
		}
		cfg.PickerAddresses = append(cfg.PickerAddresses, addr)
	}
	if len(cfg.PickerAddresses)+len(cfg.PickerSockets) == 0 {
		if addr, err := netip.ParseAddrPort(cfg.Picker.Addr().String()); err == nil && addr.Addr().IsUnspecified() {
			cfg.PickerAddresses = []netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), addr.Port())}
		}
	}
	return nil
}

// authenticate returns an error if clients of other users could connect without a credential.
func (s *service) authenticate(cfg *app.Config, log *slog.Logger) (err error) {
	cfg.Peers, cfg.Disk = s.peers, &s.secure.disk
	if s.fleet {
		return nil
	}
	if cfg.Credentials, err = s.secure.credentials(); err != nil {
		return err
	}
	if cfg.Credentials != nil && (s.replicas || len(cfg.Peers.Addresses) > 0) &&
		(cfg.Peers.Listener == nil || cfg.Peers.TLS == nil) {
		return errors.New("--peers or --service with --xds-cert requires --peers-listen, --peers-ca, --peers-cert " +
			"and --peers-key: the port of --xds is for proxies")
	}
	if s.replicas && cfg.Peers.TLS == nil {
		return errors.New("--service requires --peers-listen, --peers-ca, --peers-cert and --peers-key, " +
			"or --penstock-image: the processes reach each other at its endpoints")
	}
	if cfg.Credentials == nil && cfg.XDS != nil {
		return fmt.Errorf("--xds %s: ADS gives each client the private keys of Gateways, and every user of this "+
			"machine reaches a port: remove --xds for a socket in the state folder, write unix:PATH, or add "+
			"--xds-cert, --xds-key and --xds-client-ca or --xds-token (penstock credentials makes the files)",
			cfg.XDS.Addr())
	}
	if err := authenticated(cfg.Peers); err != nil {
		return err
	}
	return s.secure.check(log, cfg.Picker.Addr(), cfg.Credentials != nil)
}

func listen(ctx context.Context, sockets *ports.Sockets, port ports.Port, flag, address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		if err := absolute(&path); err != nil { // Envoy may have another working directory
			return nil, err
		}
		l, err := app.ListenSocket(sockets, port, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		return l, nil
	}
	l, err := sockets.Listen(ctx, port, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; choose another address", flag, err)
	}
	return l, nil
}
