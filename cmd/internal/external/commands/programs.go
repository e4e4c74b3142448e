package commands

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/penstock-project/penstock/picker/external"
	"github.com/penstock-project/penstock/picker/external/preprocess"
	"github.com/penstock-project/penstock/picker/external/router"
	"github.com/penstock-project/penstock/picker/external/tokenstore"
)

// New returns penstock-external's root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:     "penstock-external",
		Short:   "Run a small external processor, router or token store, for pools with picker.processor",
		Version: external.Release(),
		Long: `Run one of the services of a pool with picker.processor: a processor, which tokenizes prompts; a
router, which chooses workers by token IDs; and a token store, from which workers fetch token IDs. They are small,
keep nothing on disk, and show the protocol. The Helm chart in manifests/charts/external deploys them. Your own
program can replace each.

Each serves GET /healthz, /version and /metrics beside its own path, and does not use a peer of another minor release.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newProcessor(), newRouter(), newTokens())
	return root
}

type program struct {
	listen string
	grace  time.Duration
}

func (p *program) flags(f *pflag.FlagSet, listen string) {
	f.StringVar(&p.listen, "listen", listen, "address to listen on, as HOST:PORT")
	f.DurationVar(&p.grace, "grace", 10*time.Second, "grace period for requests in flight after SIGTERM")
}

type pather interface{ Paths(*external.Server) }

func (p *program) run(cmd *cobra.Command, cfg external.ServerConfig,
	start func(*slog.Logger, *prometheus.Registry) (pather, error)) error {
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
	cfg.Listen, cfg.Grace, cfg.Log, cfg.Metrics = p.listen, p.grace, log, prometheus.NewRegistry()
	started, err := start(log, cfg.Metrics)
	if err != nil {
		return err
	}
	server := external.NewServer(cfg)
	started.Paths(server)
	address, err := server.Open()
	if err != nil {
		return err
	}
	cmd.PrintErrf("the %s serves on http://%s\n", cfg.Component, address)
	group, ctx := errgroup.WithContext(cmd.Context())
	group.Go(func() error { return server.Run(ctx) })
	if runs, ok := started.(interface{ Run(context.Context) error }); ok {
		group.Go(func() error { return runs.Run(ctx) })
	}
	return group.Wait()
}

func newProcessor() *cobra.Command {
	var p program
	var cfg preprocess.Config
	var encoding string
	cmd := &cobra.Command{
		Use:   "processor",
		Short: "Tokenize prompts: POST /process",
		Long: `Answer POST /process of an endpoint picker: tokenize the request's prompt, let a router choose a worker
if the request has "route": true, and put the token IDs into a token store, or else into the response. The router and
the token store are called at the same time. Without the router, the endpoint picker schedules; without the token
store, token IDs travel in the body.

The tokenized text has a line for each message, unlike any model's chat template. For model servers that compute with
these token IDs, run a processor with the tokenizer and template of their model.`,
		Example: `  # A processor alone: token IDs are in its responses
  penstock-external processor --listen 127.0.0.1:8090 &
  curl -s localhost:8090/process -d '{"request_body": {"messages": [{"role": "user", "content": "Hello"}]}, "headers": {}}'

  # All of them
  penstock-external tokens --listen 127.0.0.1:8092 &
  penstock-external router --listen 127.0.0.1:8091 --worker 127.0.0.1:8001 --worker 127.0.0.1:8002 &
  penstock-external processor --listen 127.0.0.1:8090 --router http://127.0.0.1:8091 --tokens http://127.0.0.1:8092`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd, preprocess.ServerConfig(),
				func(log *slog.Logger, metrics *prometheus.Registry) (_ pather, err error) {
					if cfg.Tokenize, err = vocabulary(encoding); err != nil {
						return nil, err
					}
					cfg.Log = log
					return preprocess.New(cfg, metrics)
				})
		},
	}
	p.flags(cmd.Flags(), "127.0.0.1:8090")
	cmd.Flags().StringVar(&encoding, "encoding", "o200k_base", "vocabulary of the tokenizer: o200k_base or cl100k_base")
	cmd.Flags().StringVar(&cfg.Router, "router", "", "URL of the router, as http://HOST:PORT (default: none)")
	cmd.Flags().StringVar(&cfg.Tokens, "tokens", "", "URL of the token store, as http://HOST:PORT (default: none)")
	cmd.Flags().DurationVar(&cfg.Timeout, "timeout", 300*time.Millisecond,
		"timeout of a call of the router or the token store")
	return cmd
}

func newRouter() *cobra.Command {
	var p program
	var cfg router.Config
	cmd := &cobra.Command{
		Use:   "router",
		Short: "Choose workers by token IDs: POST /route",
		Long: `Answer POST /route {"token_ids": [1, 15043]} with {"worker_address": "10.0.0.1:8000"}, the worker with
the fewest tokens to read: the prompt's tokens that it was not sent before, and tokens that it was sent a moment ago.`,
		Example: `  # Workers by address, or by the name of their pod
  penstock-external router --listen 127.0.0.1:8091 --worker 127.0.0.1:8001 --worker worker-3:8080 &
  curl -s localhost:8091/route -d '{"token_ids": [1, 15043, 29892]}'

  # The ready pods of a headless Service
  penstock-external router --listen :8080 --workers workers.default.svc:8000`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.run(cmd, router.ServerConfig(),
				func(log *slog.Logger, metrics *prometheus.Registry) (pather, error) {
					cfg.Log = log
					return router.New(cfg, metrics)
				})
		},
	}
	p.flags(cmd.Flags(), "127.0.0.1:8091")
	cmd.Flags().StringSliceVar(&cfg.Workers, "worker", nil, "address of a worker, as HOST:PORT; may be repeated. An "+
		"answer has it as written, so a HOST is a pod's name or a host of ModelServers (default: none)")
	cmd.Flags().StringVar(&cfg.Service, "workers", "",
		"DNS name with the addresses of workers, and their port, as NAME:PORT; resolved every 2s (default: none)")
	cmd.Flags().IntVar(&cfg.CacheTokens, "cache-tokens", 0, "size of a worker's KV cache, in tokens; 0: 2 million")
	return cmd
}

func newTokens() *cobra.Command {
	var p program
	var cfg tokenstore.Config
	var memory resource.QuantityValue
	memory.Quantity = *resource.NewQuantity(256<<20, resource.BinarySI)
	cmd := &cobra.Command{
		Use:   "tokens",
		Short: "Keep token IDs until a worker fetches them: PUT and GET /tokens/KEY",
		Long: `Keep lists of token IDs in memory: PUT /tokens/KEY stores one, and GET /tokens/KEY returns it. A key
has 32 random hexadecimal digits, so only the worker that was sent a key can read its list. Expired lists are dropped,
and the least recently used ones if all would take more than --max-bytes.`,
		Example: `  penstock-external tokens --listen 127.0.0.1:8092 &
  curl -s -X PUT localhost:8092/tokens/000102030405060708090a0b0c0d0e0f -d '[1,15043]'
  curl -s localhost:8092/tokens/000102030405060708090a0b0c0d0e0f`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Bytes = memory.Value(); cfg.Bytes < tokenstore.MaxList {
				return fmt.Errorf("--max-bytes %s: must be at least %d, the largest list", memory.String(),
					tokenstore.MaxList)
			}
			if cfg.TTL <= 0 {
				return errors.New("--ttl: must be more than 0")
			}
			return p.run(cmd, tokenstore.ServerConfig(),
				func(_ *slog.Logger, metrics *prometheus.Registry) (pather, error) {
					return tokenstore.New(cfg, metrics), nil
				})
		},
	}
	p.flags(cmd.Flags(), "127.0.0.1:8092")
	cmd.Flags().Var(&memory, "max-bytes", "largest sum of the lists, as a quantity")
	cmd.Flags().DurationVar(&cfg.TTL, "ttl", 10*time.Minute, "time after which a list is dropped, used or not")
	return cmd
}
