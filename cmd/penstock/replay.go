package main

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/picker/simulation"
)

type replayOptions struct {
	pool       string
	strategies []string
	servers    int
	speed      float64
	rate       float64
	blocks     int
	pages      time.Duration
	spread     bool
	seed       uint64
}

func newReplay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay TRACE",
		Short: "Compare strategies of picking on a trace, by simulation",
		Long: `Replay the requests of a trace to simulated model servers, once for each strategy, and print how long
clients would have waited for first bytes, which share of the prompts' tokens was cached, and how evenly the servers
were used.

TRACE is a file of JSON lines, or such a file compressed by gzip; "-" is standard input. A line is a request, in the
form of Mooncake's public traces: timestamp (ms), input_length and output_length (tokens), and hash_ids, one for each
block of 512 tokens of the prompt. Equal ids at the beginning of two prompts mean that the prompts begin alike.

Lines that --record wrote have the pool, too. One pool's servers are simulated at a time, so a trace with several pools
needs --pool. Requests that failed (status 400 or more) or have more tokens than a server's KV cache are left out;
standard error has the number of such requests. Answers are streams, except for recorded requests that asked for none.

The strategies are PoolPolicy's, which run as in the picker, and other routers', re-stated from their documentation.
The servers are modelled on vLLM: they tokenize 250,000 tokens a second and send a stream's headers then. A step
computes at most 2,048 prompt tokens, and takes 20 ms or as long as these tokens take, and 0.3 ms for each running
request; 128 requests run at a time; KV blocks are the prefix cache.

Equal arguments print equal bytes.`,
		Example: `  # Twice as many requests as in the trace, on 16 servers
  penstock replay trace.jsonl --strategy load --strategy least-request --servers 16 --speed 2
  # The requests of one pool, of a trace that --record wrote
  penstock replay trace.jsonl --pool default/llama`,
		Args: takes(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.pool, "pool", "", "only the requests of this pool, as NAMESPACE/NAME; required for a trace with "+
		"several pools (default: the only one)")
	f.StringArrayVar(&o.strategies, "strategy", []string{"load", "least-request"},
		"strategy to replay with; may be repeated: "+strings.Join(simulation.Names(), ", "))
	f.IntVar(&o.servers, "servers", 8, "number of model servers, 1 to 1000")
	f.Float64Var(&o.speed, "speed", 1, "how many times as fast as in the trace requests arrive")
	f.Float64Var(&o.rate, "prefill-rate", 8000, "prompt tokens that a server computes in a second")
	f.IntVar(&o.blocks, "kv-blocks", 1500, "KV blocks of a server, of 512 tokens each")
	f.DurationVar(&o.pages, "scrape-interval", 50*time.Millisecond,
		"time between two readings of a server's metrics page")
	f.BoolVar(&o.spread, "spread", false, "distribute the requests of one timestamp at random until the next timestamp")
	f.Uint64Var(&o.seed, "seed", 1, "seed of ties and of --spread")
	return cmd
}

func (o *replayOptions) run(cmd *cobra.Command, trace string) error {
	switch {
	case o.servers < 1 || o.servers > 1000:
		return errors.New("--servers must be 1 to 1000")
	case !(o.speed > 0) || math.IsInf(o.speed, 0):
		return errors.New("--speed must be more than 0")
	case !(o.rate >= 1) || o.rate > 1e9:
		return errors.New("--prefill-rate must be 1 to 1000000000 tokens a second")
	case o.blocks < 1 || o.blocks > 1<<24:
		return fmt.Errorf("--kv-blocks must be 1 to %d", 1<<24)
	case o.pages < time.Millisecond:
		return errors.New("--scrape-interval must be at least 1ms")
	}
	strategies, err := simulation.Named(o.strategies...)
	if err != nil {
		return fmt.Errorf("--strategy: %w", err)
	}
	workload, err := o.read(cmd, trace)
	if err != nil {
		return err
	}
	server := simulation.ServerConfig{PrefillRate: o.rate, Blocks: o.blocks}
	workload, left, err := workload.Replayable(server)
	if err != nil {
		return err
	}
	for _, text := range left {
		fmt.Fprintln(cmd.ErrOrStderr(), text)
	}
	if o.spread {
		workload = workload.Spread(rand.New(rand.NewPCG(o.seed, 0)))
	}
	workload = workload.At(o.speed)
	var trials []simulation.Trial
	for _, s := range strategies {
		trials = append(trials, simulation.Trial{All: true, Scenario: simulation.Scenario{Workload: workload,
			Strategy: s, Servers: o.servers, Server: server, Pages: simulation.Pages{Every: o.pages}, Seed: o.seed}})
	}
	table := newTable(cmd.OutOrStdout(), "STRATEGY", "TTFT P50", "TTFT P90", "END TO END", "PREFIX HITS", "BALANCE")
	for i, s := range simulation.Play(trials) {
		p50, p90 := fmt.Sprintf("%.3fs", s.TTFT50.Seconds()), fmt.Sprintf("%.3fs", s.TTFT90.Seconds())
		if s.Streams == 0 {
			p50, p90 = "-", "-"
		}
		table.row(strategies[i].Name, p50, p90, fmt.Sprintf("%.3fs", s.EndToEnd.Seconds()),
			fmt.Sprintf("%.1f%%", 100*s.Hits), fmt.Sprintf("%.2f", s.Balance))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), `
%d requests, %.2f a second, on %d servers. TTFT is the time to the first byte of a stream; END TO END is a mean.
BALANCE is the largest number of prompt tokens that one server computed over the mean of all: 1 is even.
`, len(workload.Requests), workload.Rate(), o.servers)
	return err
}

func (o *replayOptions) read(cmd *cobra.Command, trace string) (*simulation.Workload, error) {
	workload, err := readTrace(cmd, trace, o.pool)
	if pools := (*simulation.PoolsError)(nil); errors.As(err, &pools) {
		if _, unnamed := pools.Requests[""]; unnamed && len(pools.Requests) == 1 {
			return nil, fmt.Errorf("%s: the trace names no pools: leave out --pool", pools.Name)
		}
		err = fmt.Errorf("%w: name one with --pool", err)
	}
	return workload, err
}

func readTrace(cmd *cobra.Command, name, pool string) (*simulation.Workload, error) {
	if name == "-" {
		return simulation.ReadPool("standard input", cmd.InOrStdin(), pool)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	var from io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		unpacked, err := gzip.NewReader(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		from = unpacked
	}
	return simulation.ReadPool(name, from, pool)
}
