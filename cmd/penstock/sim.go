package main

import (
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/sim"
)

func newSim() *cobra.Command {
	var cfg sim.Config
	var ports []int
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run a simulated model server: vLLM's endpoints, queue and metrics, without a GPU",
		Long: `Run a simulated model server, to try things out where there is no GPU. It answers like a vLLM: chat and text
completions, plain and streamed, models, health and metrics. Its answers say who served them and repeat what was asked.

It is as slow and as full as you tell it to be. At most --max-num-seqs requests run and the others wait in its queue;
each takes room in its KV cache for a while; at most --max-loras adapters are active. All of that shows in /metrics,
which is what an endpoint picker looks at. One word is one token.`,
		Example: `  # A server, and a question. The answer names the server.
  penstock sim --port 8001 --name pod-1 &
  curl -s localhost:8001/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hello there"}]}'

  # Watch an answer arrive, word by word.
  penstock sim --port 8001 --inter-token-latency 200ms &
  curl -sN localhost:8001/v1/completions -d '{"prompt": "one two three", "stream": true}'

  # A server that is easily full: two at a time, a second each. Then look at its queue.
  penstock sim --port 8001 --max-num-seqs 2 --time-to-first-token 1s &
  for i in 1 2 3 4 5; do curl -s localhost:8001/v1/completions -d '{"prompt": "hi"}' & done
  curl -s localhost:8001/metrics | grep num_requests

  # One with adapters; "model": "sql" in a request asks for one of them.
  penstock sim --port 8001 --model llama --lora sql,chat --max-loras 1

  # One that answers every fourth request with 503, and what reached it last, headers and all.
  penstock sim --port 8001 --fail-rate 0.25 --status 503 &
  curl -s localhost:8001/debug/last`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, port := range ports {
				cfg.Listen = append(cfg.Listen, net.JoinHostPort("", strconv.Itoa(port)))
			}
			if len(cfg.Listen) == 0 {
				cfg.Listen = []string{"127.0.0.1:8000"}
			}
			server, err := sim.New(cfg)
			if err != nil {
				return err
			}
			addresses, err := server.Listen()
			if err != nil {
				return err
			}
			cmd.PrintErrf("%s serves %s on %s\n", cfg.Name, cfg.Model, strings.Join(addresses, " "))
			return server.Run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.IntSliceVar(&ports, "port", nil, "port on all addresses; may be given several times")
	flags.StringSliceVar(&cfg.Listen, "listen", nil, "host:port; may be given several times (default 127.0.0.1:8000)")
	flags.StringVar(&cfg.Name, "name", "sim", "what the server calls itself, in answers and in the header x-served-by")
	flags.StringVar(&cfg.Model, "model", "sim-model", "name of the base model")
	flags.StringSliceVar(&cfg.LoRAs, "lora", nil, "names of LoRA adapters")
	flags.IntVar(&cfg.MaxLoRAs, "max-loras", 1, "adapters that can be active at a time")
	flags.IntVar(&cfg.MaxNumSeqs, "max-num-seqs", 256, "requests that run at a time; more wait in the queue")
	flags.IntVar(&cfg.KVCacheTokens, "kv-cache-tokens", 65536, "size of the KV cache, and so of the longest context")
	flags.DurationVar(&cfg.TimeToFirstToken, "time-to-first-token", 0, "from the start of a request that has left the queue")
	flags.DurationVar(&cfg.InterTokenLatency, "inter-token-latency", 0, "between two tokens")
	flags.Float64Var(&cfg.FailRate, "fail-rate", 0, "share of completions that fail, 0 to 1, evenly spread")
	flags.IntVar(&cfg.Status, "status", 503, "what a failed completion is answered with")
	flags.DurationVar(&cfg.Grace, "grace", 30*time.Second, "how long requests may go on after SIGTERM")
	return cmd
}
