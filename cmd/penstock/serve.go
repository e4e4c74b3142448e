package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
)

func newServe() *cobra.Command {
	var s service
	var k kubernetes
	var others peerFlags
	var memory resource.QuantityValue
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the control plane and the picker alone, for Envoys that run elsewhere",
		Long: `Run the control plane and the endpoint picker, for Envoys that penstock does not start. Print the
bootstrap of an Envoy with penstock bootstrap. ADS has the private keys of Gateways: by default it and the picker are
served at sockets in the state folder, to Envoys of this user. Two processes over the same files serve the same
Envoys: either may end, freeze or be upgraded without a lost request. Give each process the addresses of all (--peers,
and --picker-address for each picker).

With --xds HOST:PORT, Envoys run on any machine that reaches these addresses, and they and control planes authenticate
each other: penstock credentials makes a CA and certificates, and prints the flags of both sides.

With --kubeconfig, or without -f in a pod, serve reads the objects of that cluster. One of several processes writes
the objects' status; the processes find each other through --service.`,
		Example: `  penstock serve -f ./config
  penstock serve --kubeconfig ~/.kube/config
  penstock bootstrap --gateway default/gw -f ./config > envoy.yaml
  envoy -c envoy.yaml $(sed -n 's/^# envoy arguments: //p' envoy.yaml)`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var cluster *app.Kubernetes
			var err error
			if k.wanted(s.paths) {
				if cluster, err = k.config(cmd, s.paths, &s.secure); err != nil {
					return err
				}
				s.cluster, s.fleet, s.replicas = true, cluster.Fleet != nil, cluster.Service != ""
			}
			if s.peers, err = others.config(cmd.Context(), &s.secure.disk); err != nil {
				return err
			}
			p, cfg, shutdown, err := s.newApp(cmd, func(cfg app.Config) (*app.App, error) {
				cfg.Memory = memory.Value()
				if s.cluster {
					return app.NewKubernetes(cfg, *cluster)
				}
				return app.NewFolder(cfg, app.Folder{Paths: s.paths})
			})
			if err != nil {
				return err
			}
			defer shutdown()
			if s.cluster && k.kubeconfig == "" { // a pod's output is a log
				cfg.Log.Info("serving", "ads", addressOf(ads(cfg)), "picker", addressOf(cfg.Picker))
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "ADS at %s, endpoint picker at %s\n", addressOf(ads(cfg)),
					addressOf(cfg.Picker))
			}
			defer s.stop.announce(cmd.Context(), cmd.ErrOrStderr(), func() {})()
			appCtx, stopApp := context.WithCancel(context.WithoutCancel(cmd.Context()))
			defer stopApp()
			defer context.AfterFunc(cmd.Context(), func() { // ADS goes on until Envoys' picks have ended
				p.EndPicks()
				stopApp()
			})()
			group, ctx := errgroup.WithContext(appCtx)
			group.Go(func() error { return p.Run(ctx) })
			if cluster == nil { // in a cluster, findings are in objects' status
				group.Go(func() error { return printFindings(ctx, p.Board(), cmd.ErrOrStderr()) })
			}
			return group.Wait()
		},
	}
	k.flags(cmd)
	s.flags(cmd, "127.0.0.1:9002", "info")
	others.flags(cmd)
	memoryFlag(cmd.Flags(), &memory)
	return cmd
}
