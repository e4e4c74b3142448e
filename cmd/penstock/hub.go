package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/debug"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/multicluster/hub"
	"github.com/penstock-project/penstock/xds/admission/ports"
)

type hubFlags struct {
	files
	kubeconfig, namespace  string
	kubeconfigs, providers string
	http, admin            string
	takeOver               bool
	memory                 resource.QuantityValue
	drain                  time.Duration
}

func newHub() *cobra.Command {
	var h hubFlags
	cmd := &cobra.Command{
		Use:   "hub",
		Short: "Run the hub of a cluster set: it makes imports in clusters that need no Penstock",
		Long: `Run the hub of a cluster set, the management cluster of the multi-cluster inference proposal. For each
member of its ClusterSet with a kubeconfig or a clusterProfile, it reads the InferencePools, writes
InferencePoolImports into the other members, and sets the condition Exported of each exported pool. The members need
no Penstock: any gateway that reads InferencePoolImports routes by them.

In a pod, or with --kubeconfig, the hub reads the ClusterSet from the management cluster, and one of several hubs
leads. With -f it reads files, and is the only hub. The kubeconfigs of members are files in one folder; the hub reads
no Secret. "penstock hub rules" prints the objects to apply in a member, with no more permissions than the hub needs.

The hub ignores members that have a peer: Penstocks exchange exports with them at their own addresses (penstock
clusters join).

A member that does not answer delays no other, and its exports stay. A hub may be killed at any time: after its next
start the objects are the same, and it writes nothing if nothing has changed meanwhile.`,
		Example: `  # In a pod of the management cluster.
  penstock hub --kubeconfigs /etc/penstock/members

  # On any machine; the page /members shows what is wrong.
  penstock hub -f ./set --kubeconfigs ./members --http 127.0.0.1:8090

  # The RBAC that the hub needs in a member.
  penstock hub rules | kubectl --context east apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return h.run(cmd) },
	}
	h.files.flags(cmd, "required without --kubeconfig, except in a pod")
	f := cmd.Flags()
	f.StringVar(&h.kubeconfig, "kubeconfig", "",
		"kubeconfig file of the management cluster (default: the cluster that penstock runs in, if no -f is given)")
	f.StringVar(&h.namespace, "namespace", "",
		"namespace of the hub's Lease (default: the pod's namespace, else the kubeconfig's)")
	f.StringVar(&h.kubeconfigs, "kubeconfigs", "",
		"folder with the kubeconfigs that spec.members[].kubeconfig.file names (default: none)")
	f.StringVar(&h.providers, "clusterprofile-provider-file", "",
		"JSON file with the credential providers of ClusterProfiles, in the form of KEP-5339 (default: none)")
	f.StringVar(&h.http, "http", "", "address of /metrics and /healthz, as HOST:PORT; a loopback address also serves "+
		"the page of --admin (default: none)")
	f.StringVar(&h.admin, "admin", "", "address of /members, which shows the members and their problems to every "+
		"client: choose a loopback address such as 127.0.0.1:9091 (default: none)")
	f.BoolVar(&h.takeOver, "take-over", false, "adopt imports that another hub has written, which is gone for good")
	f.DurationVar(&h.drain, "drain-time", 10*time.Minute,
		"how long the requests of a withdrawn export may go on before its entry is removed")
	f.Var(&h.memory, "memory-limit", "memory of the process's container, as a quantity such as 512Mi: Go's memory "+
		"limit is 10 percent below it, unless GOMEMLIMIT is set, and a fifth of it is for the objects of members "+
		"(default: no limit, and a fifth of 512Mi for objects)")
	cmd.AddCommand(newHubRules())
	return cmd
}

func newHubRules() *cobra.Command {
	var namespace string
	var create bool
	cmd := &cobra.Command{
		Use:     "rules",
		Short:   "Print the objects that give a hub its permissions in a member",
		Example: `  penstock hub rules | kubectl --context east apply -f -`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), hub.Rules(namespace, create))
			return err
		},
	}
	cmd.Flags().StringVar(&namespace, "namespace", "penstock-hub",
		"namespace of the hub's service account in the member")
	cmd.Flags().BoolVar(&create, "create-namespaces", false,
		"allow the hub to make namespaces, for spec.createNamespaces of its ClusterSet")
	return cmd
}

func (h *hubFlags) run(cmd *cobra.Command) error {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	cfg := hub.Config{Kubeconfigs: h.kubeconfigs, Providers: h.providers, TakeOver: h.takeOver, Drain: h.drain,
		Disk: &filesystem.Disk{}, Log: log}
	cfg.Memory = h.memory.Value()
	defer app.KeepWithin(h.memory.Value())()
	app.CollectTight()
	var err error
	if cfg.StateDir, err = h.place(&cfg); err != nil {
		return err
	}
	manager, err := hub.New(cfg)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(cmd.Context())
	if err := h.servePages(ctx, group, manager, cfg.StateDir, log); err != nil {
		return err
	}
	group.Go(func() error { return manager.Run(ctx) })
	err = group.Wait()
	if cmd.Context().Err() != nil {
		return nil
	}
	return err
}

func (h *hubFlags) servePages(ctx context.Context, group *errgroup.Group, manager *hub.Hub, stateDir string,
	log *slog.Logger) error {
	metrics := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{manager, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})} {
		if err := metrics.Register(c); err != nil {
			return err
		}
	}
	open, all := http.NewServeMux(), http.NewServeMux()
	open.Handle("GET /metrics", app.MetricsPage(metrics))
	open.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if why := manager.Stuck(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, "ok\n")
	})
	all.Handle("/", open)
	manager.Register(all)
	debug.RegisterStore(all, manager.Store())
	if err := h.serveSocket(ctx, group, all, stateDir, log); err != nil {
		return err
	}
	for _, served := range []struct {
		port          ports.Port
		flag, address string
		open          http.Handler
	}{{ports.Pages, "http", h.http, open}, {ports.Admin, "admin", h.admin, all}} {
		if served.address == "" {
			continue
		}
		l, err := served.port.Listen(ctx, "tcp", served.address)
		if err != nil {
			return fmt.Errorf("--%s: %w", served.flag, err)
		}
		log.Info("serving", served.flag, l.Addr().String())
		group.Go(func() error { return app.ServePages(ctx, l, served.open, all) })
	}
	return nil
}

func (h *hubFlags) serveSocket(ctx context.Context, group *errgroup.Group, all http.Handler, stateDir string,
	log *slog.Logger) error {
	if stateDir == "" {
		return nil
	}
	l, err := app.ListenSocket(nil, ports.Local, app.Socket(stateDir))
	switch {
	case err == nil:
		group.Go(func() error { return app.ServeSocket(ctx, l, all) })
	case app.Unwritable(err):
		log.Error("other penstock commands do not reach this hub until it starts again with a state folder that takes "+
			"files", "error", err)
	default:
		return err
	}
	return nil
}

func (h *hubFlags) place(cfg *hub.Config) (stateDir string, err error) {
	if h.kubeconfig == "" && (len(h.paths) > 0 || os.Getenv("KUBERNETES_SERVICE_HOST") == "") {
		cfg.Paths = h.paths
		if len(h.paths) == 0 {
			return "", errors.New("the hub needs a ClusterSet: name its file with -f, or a management cluster with " +
				"--kubeconfig")
		}
		if err := h.exist(); err != nil {
			return "", err
		}
		return h.openState("")
	}
	if len(h.paths) > 0 {
		return "", errors.New("the ClusterSet comes from files or from a cluster: remove -f or --kubeconfig")
	}
	var namespace string
	if cfg.REST, namespace, err = clusterAt(cfg.Disk, h.kubeconfig); err != nil {
		return "", err
	}
	if cfg.Namespace = cmp.Or(h.namespace, namespace); cfg.Namespace == "" {
		return "", errors.New("the namespace of the hub's Lease is unknown: set it with --namespace")
	}
	cfg.Identity, err = processName()
	return "", err
}
