package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-project/penstock/picker/external/tokenstore"
	"github.com/penstock-project/penstock/picker/modelserver"
)

func newSim() *cobra.Command {
	var cfg modelserver.Config
	var ports []int
	var tokens string
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run a simulated model server: vLLM's endpoints, queue and metrics, without a GPU",
		Long: `Run a simulated model server, for machines without a GPU. It has the endpoints of vLLM: chat and text
completions, responses and Anthropic's messages, plain and streamed, embeddings, rerank, models, health and metrics.
Each text names the server and repeats the prompt. Embeddings and scores depend on the words of a text alone.

Flags set how slow it is and how soon it is full. At most --max-num-seqs requests run and the others wait in its
queue; each request occupies KV cache while it runs; at most --max-loras adapters are active. /metrics shows all of
this to an endpoint picker. One word is one token, unless a request brings the token IDs of its prompt: as token_ids
in the body, or as a key of the token store (--tokens) in the header x-req-tokens-key. The response's header
x-tokens-from states which.

It serves POST /v1/chat/completions, /v1/completions, /v1/responses, /v1/messages, /v1/embeddings, /v1/rerank (also
/rerank and /v2/rerank); /v1/chat/completions/render and /v1/completions/render, which answer with the token IDs of a
prompt; /v1/load_lora_adapter and /v1/unload_lora_adapter with a lora_name, which change the adapters; and, with
--prefix-caching, /reset_prefix_cache. GET /v1/models, /health, /version, /metrics, and /debug/last, which shows the
last request.`,
		Example: `  # A server and a request. The response names the server.
  penstock sim --port 8001 --name pod-1 &
  curl -s localhost:8001/v1/chat/completions -d '{"messages": [{"role": "user", "content": "Hello there"}]}'

  # Watch a response arrive, word by word.
  penstock sim --port 8001 --inter-token-latency 200ms &
  curl -sN localhost:8001/v1/completions -d '{"prompt": "one two three", "stream": true}'

  # OpenAI's responses, Anthropic's messages, embeddings and rerank.
  penstock sim --port 8001 &
  curl -s localhost:8001/v1/responses -d '{"input": "Hello there"}'
  curl -s localhost:8001/v1/messages -d '{"max_tokens": 64, "messages": [{"role": "user", "content": "Hello there"}]}'
  curl -s localhost:8001/v1/embeddings -d '{"input": ["Hello there", "Good morning"]}'
  curl -s localhost:8001/v1/rerank -d '{"query": "hello", "documents": ["hello there", "good morning"]}'

  # A server that is soon full: two requests at a time, one second each. Then read its queue.
  penstock sim --port 8001 --max-num-seqs 2 --time-to-first-token 1s &
  for i in 1 2 3 4 5; do curl -s localhost:8001/v1/completions -d '{"prompt": "hi"}' & done
  curl -s localhost:8001/metrics | grep num_requests

  # A server that computes in steps, as the servers of penstock replay do: prompts delay the answers beside them.
  penstock sim --port 8001 --step-time 20ms --step-time-per-sequence 300us --prefill-rate 8000 --prefix-caching

  # A server with adapters; "model": "sql" in a request selects one of them.
  penstock sim --port 8001 --model llama --lora sql,chat --max-loras 1

  # A server that publishes what it has cached, for a pool with picker.kvEvents.
  penstock sim --port 8001 --prefix-caching --kv-events :5557 --time-to-first-token 500ms &

  # A server that answers every fourth request with 503. /debug/last shows the last request with its headers.
  penstock sim --port 8001 --fail-rate 0.25 --status 503 &
  curl -s localhost:8001/debug/last`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSim(cmd, cfg, ports, tokens) },
	}
	simFlags(cmd.Flags(), &cfg, &ports)
	cmd.Flags().StringVar(&tokens, "tokens", "", "URL of the token store (penstock-external tokens) for requests with "+
		"a key in x-req-tokens-key, as http://HOST:PORT (default: none)")
	return cmd
}

func runSim(cmd *cobra.Command, cfg modelserver.Config, ports []int, tokens string) error {
	if cfg.MaxNumSeqs < 1 || cfg.KVCacheTokens < 1 || cfg.MaxLoRAs < 1 { // Config would take 0 as the default
		return errors.New("--max-num-seqs, --kv-cache-tokens and --max-loras must be 1 or more")
	}
	for _, port := range ports {
		cfg.Listen = append(cfg.Listen, net.JoinHostPort("", strconv.Itoa(port)))
	}
	if len(cfg.Listen) == 0 {
		cfg.Listen = []string{"127.0.0.1:8000"}
	}
	if tokens != "" {
		store, err := tokenstore.NewClient(tokens, time.Second)
		if err != nil {
			return fmt.Errorf("sim: %w", err)
		}
		cfg.Tokens = store
	}
	server, err := modelserver.New(cfg)
	if err != nil {
		return err
	}
	addresses, err := server.Listen()
	if err != nil {
		return err
	}
	cmd.PrintErrf("%s serves %s on %s\n", cfg.Name, cfg.Model, strings.Join(addresses, " "))
	return server.Run(cmd.Context())
}

func simFlags(flags *pflag.FlagSet, cfg *modelserver.Config, ports *[]int) {
	flags.IntSliceVar(ports, "port", nil, "port to listen on, on all addresses; may be repeated (default: none)")
	flags.StringSliceVar(&cfg.Listen, "listen", nil,
		"address to listen on, as HOST:PORT; may be repeated (default 127.0.0.1:8000)")
	flags.StringVar(&cfg.Name, "name", "sim", "name of the server, in responses and in the header x-served-by")
	flags.StringVar(&cfg.Model, "model", "sim-model", "name of the base model")
	flags.StringSliceVar(&cfg.LoRAs, "lora", nil, "name of a LoRA adapter; may be repeated (default: none)")
	flags.IntVar(&cfg.MaxLoRAs, "max-loras", 1, "number of adapters that can be active at the same time")
	flags.IntVar(&cfg.MaxNumSeqs, "max-num-seqs", 256,
		"number of requests that run at the same time; others wait in the queue")
	flags.IntVar(&cfg.MaxPrefills, "max-num-partial-prefills", 0, "number of prompts that are read at the same time, "+
		"as a GPU reads one after the other; others wait in the queue; 0: no limit (default 0)")
	flags.IntVar(&cfg.KVCacheTokens, "kv-cache-tokens", 65536,
		"size of the KV cache in tokens, which is also the longest context")
	flags.Float64Var(&cfg.TokenizerRate, "tokenizer-rate", 0, "tokens of prompts that are tokenized in a second, one "+
		"prompt after the other, before the headers of its answer; 0: all at once (default 0)")
	flags.DurationVar(&cfg.TimeToFirstToken, "time-to-first-token", 0,
		"time from a request leaving the queue to its first token (default 0s)")
	flags.Float64Var(&cfg.PrefillRate, "prefill-rate", 0,
		"tokens of a prompt that are read in a second, before the first token; 0: all at once (default 0)")
	flags.DurationVar(&cfg.InterTokenLatency, "inter-token-latency", 0, "time between two tokens (default 0s)")
	flags.DurationVar(&cfg.StepTime, "step-time", 0, "compute in steps of this time, or longer if their tokens of "+
		"prompts take longer: a token of every answer, and a chunk of prompts. Replaces --time-to-first-token, "+
		"--inter-token-latency and --max-num-partial-prefills; 0: requests do not delay each other (default 0s)")
	flags.DurationVar(&cfg.StepTimePerSequence, "step-time-per-sequence", 0,
		"how much longer a step takes for each request that runs; needs --step-time (default 0s)")
	flags.IntVar(&cfg.MaxBatchedTokens, "max-num-batched-tokens", 0,
		"tokens of prompts in a step, of all requests together; needs --step-time (default 2048)")
	flags.BoolVar(&cfg.PrefixCaching, "prefix-caching", false, "keep the blocks of prompts: a beginning in common "+
		"with an earlier prompt does not count for --time-to-first-token and --prefill-rate (default false)")
	flags.StringVar(&cfg.KVEvents, "kv-events", "",
		"address at which KV events are published over ZeroMQ, as HOST:PORT; needs --prefix-caching (default: none)")
	flags.StringVar(&cfg.KVEventsReplay, "kv-events-replay", "",
		"address at which KV events are sent again, as HOST:PORT (default: none)")
	flags.StringVar(&cfg.KVEventsConnect, "kv-events-connect", "",
		"address of a subscriber that listens, to which KV events are published, as HOST:PORT (default: none)")
	flags.StringVar(&cfg.KVEventsTopic, "kv-events-topic", "",
		"topic of KV events (default: kv@NAME@MODEL, by --name and --model)")
	flags.Float64Var(&cfg.FailRate, "fail-rate", 0,
		"share of requests to a model that fail, from 0 to 1, spread evenly (default 0)")
	flags.IntVar(&cfg.Status, "status", 503, "HTTP status of a failed request")
	flags.DurationVar(&cfg.Grace, "grace", 30*time.Second, "grace period for requests in flight after SIGTERM")
}
