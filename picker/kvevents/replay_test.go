package kvevents

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-zeromq/zmq4"

	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// router starts a replay endpoint that sends the messages of answer.
func router(t *testing.T, answer func(from uint64) [][][]byte) netip.AddrPort {
	t.Helper()
	socket := zmq4.NewRouter(context.Background())
	t.Cleanup(func() { _ = socket.Close() })
	if err := socket.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			ask, err := socket.Recv()
			if err != nil {
				return
			}
			if len(ask.Frames) != 3 || len(ask.Frames[2]) != 8 {
				t.Errorf("a replay was asked for with %q, want three frames, the last of 8 bytes", ask.Frames)
				return
			}
			for _, frames := range answer(binary.BigEndian.Uint64(ask.Frames[2])) {
				_ = socket.SendMulti(zmq4.NewMsgFrom(append([][]byte{ask.Frames[0]}, frames...)...))
			}
		}
	}()
	return netip.MustParseAddrPort(socket.Addr().String())
}

type framing func(seq uint64, batch []byte) [][]byte

func withoutTopic(seq uint64, b []byte) [][]byte { return [][]byte{nil, number64(seq), b} }

// withTopic frames messages as vLLM has since 0.32. The end of a replay has an empty topic.
func withTopic(seq uint64, b []byte) [][]byte {
	if seq == endOfReplay {
		return [][]byte{nil, nil, number64(seq), b}
	}
	return [][]byte{nil, []byte("kv-events"), number64(seq), b}
}

// replays returns an answer that has the batches from a number on, and the end. It appends each
// requested number to asked.
func replays(frame framing, asked *[]uint64, batches ...[]byte) func(from uint64) [][][]byte {
	return func(from uint64) (out [][][]byte) {
		*asked = append(*asked, from)
		for seq := from; seq < uint64(len(batches)); seq++ {
			out = append(out, frame(seq, batches[seq]))
		}
		return append(out, frame(endOfReplay, nil))
	}
}

func reported(t *testing.T, sub *Subscription, server netip.AddrPort) {
	t.Helper()
	poll.NoError(t, "the server is reported", poll.Limit, func() error {
		if problem, known := sub.Problem(server); known != prefix.Reported || problem != "" {
			return fmt.Errorf("got %v (%s), want %v without a problem", known, problem, prefix.Reported)
		}
		return nil
	})
}

func TestKVEvents_ReplayFillsAGap(t *testing.T) {
	for name, frame := range map[string]framing{"without topics": withoutTopic, "with topics": withTopic} {
		t.Run(name, func(t *testing.T) {
			socket, at := zmq(t)
			e := engine{size: 16}
			lost, live := ids(256, 1), ids(256, 2)
			var mu sync.Mutex
			var asked []uint64
			answer := replays(frame, &asked, batch(t, e.stored(lost[:128], options{})),
				batch(t, e.stored(lost, options{parent: 8})))
			replay := router(t, func(from uint64) [][][]byte {
				mu.Lock()
				defer mu.Unlock()
				return answer(from)
			})
			s := subscriber(t, Config{})
			sub := s.Subscribe([]Source{{Server: model1, Publisher: at, Replay: replay}})
			// Before any message arrives, the first replay shows the cache.
			eventually(t, s, model1, lost, 256, nil)
			reported(t, sub, model1)
			seq := uint64(2)
			b := batch(t, e.stored(live, options{}))
			eventually(t, s, model1, live, 256, func() { send(t, socket, "", seq, b); seq++ })
			mu.Lock()
			defer mu.Unlock()
			if asked[0] != 0 {
				t.Errorf("the first replay was asked for from %d, want 0", asked[0])
			}
		})
	}
}

// A gap right after the first replay is filled at once, because no later replay requests these
// messages.
func TestKVEvents_GapRightAfterAReplayIsFilled(t *testing.T) {
	socket, at := zmq(t)
	e := engine{size: 16}
	first, lost, live := ids(256, 1), ids(256, 2), ids(256, 3)
	var mu sync.Mutex
	var asked []uint64
	batches := [][]byte{batch(t, e.stored(first, options{}))}
	replay := router(t, func(from uint64) [][][]byte {
		mu.Lock()
		defer mu.Unlock()
		out := replays(withTopic, &asked, batches...)(from)
		if len(batches) == 1 { // published before the subscription
			batches = append(batches, batch(t, e.stored(lost, options{})), batch(t, e.stored(live, options{})))
		}
		return out
	})
	s := subscriber(t, Config{})
	sub := s.Subscribe([]Source{{Server: model1, Publisher: at, Replay: replay}})
	eventually(t, s, model1, first, 256, nil)
	seq, b := uint64(2), batch(t, e.stored(live, options{}))
	eventually(t, s, model1, live, 256, func() { send(t, socket, "", seq, b) })
	eventually(t, s, model1, lost, 256, nil)
	reported(t, sub, model1)
}

func TestKVEvents_ReplayWithDroppedMessagesIsAskedForAgain(t *testing.T) {
	for name, dropped := range map[string]func(i, n int) bool{
		"in the middle": func(i, n int) bool { return i >= 3 && i < 6 },
		"at the end":    func(i, n int) bool { return i >= 3 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, at := zmq(t)
			e := engine{size: 16}
			tokens := ids(160, 1)
			var batches [][]byte
			for i := range 10 {
				batches = append(batches, batch(t, e.stored(tokens[:16*(i+1)], options{parent: i})))
			}
			var asked []uint64 // used by the router's goroutine only, until everything is read
			replay := router(t, func(from uint64) (out [][][]byte) {
				all := replays(withTopic, &asked, batches...)(from)
				for i, message := range all {
					if from > 0 || !dropped(i, len(all)) {
						out = append(out, message)
					}
				}
				return out
			})
			s := subscriber(t, Config{})
			sub := s.Subscribe([]Source{{Server: model1, Publisher: at, Replay: replay}})
			eventually(t, s, model1, tokens, 128, nil)
			reported(t, sub, model1)
		})
	}
}

// recorded reads messages from a file. Each line is a message; frames are in hexadecimal, and "-"
// is an empty frame.
func recorded(t *testing.T, file string) (messages [][][]byte) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var frames [][]byte
		for frame := range strings.FieldsSeq(line) {
			b, err := hex.DecodeString(strings.TrimPrefix(frame, "-"))
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, b)
		}
		messages = append(messages, frames)
	}
	return messages
}

// vLLM 0.32 recorded this replay with blocks of 32 tokens. Its prompts had the tokens 100 to 169:
// of the base model, of an adapter, with the salt s1, and of the base model again. The last answer
// filled a block beyond the prompt.
func TestKVEvents_ReplayOfVLLMIsRead(t *testing.T) {
	_, at := zmq(t)
	messages := recorded(t, "testdata/vllm-0.32-replay.txt")
	replay := router(t, func(uint64) [][][]byte { return messages })
	s := subscriber(t, Config{})
	sub := s.Subscribe([]Source{{Server: model1, Publisher: at, Replay: replay}})
	reported(t, sub, model1)
	prompt := make([]uint32, 70)
	for i := range prompt {
		prompt[i] = uint32(100 + i)
	}
	handle := s.config.Prefixes.Server(model1)
	defer s.config.Prefixes.Release(handle)
	for _, tt := range []struct {
		model, salt string
		want        int
	}{{"tiny", "", 64}, {"adapter-a", "", 64}, {"tiny", "s1", 64}, {"tiny", "s2", 0}} {
		salt := uint64(0)
		if tt.salt != "" {
			salt = prefix.NameHash([]byte(tt.salt))
		}
		// The first message of a replay makes the server Reported, while others may still be
		// unread.
		poll.NoError(t, "the replay is read", poll.Limit, func() error {
			if got := cachedAt(s.config.Prefixes, handle, prompt, tt.model, salt); got != tt.want {
				return fmt.Errorf("%+v: %d tokens count as cached, want %d", tt, got, tt.want)
			}
			return nil
		})
	}
}

func TestKVEvents_ReportShowsWhyEventsAreMissing(t *testing.T) {
	e := engine{size: 16}
	for name, c := range map[string]struct {
		answer func(from uint64) [][][]byte
		want   string
	}{
		"no replay":      {nil, "replayPort"},
		"another replay": {func(uint64) [][][]byte { return [][][]byte{{nil, []byte("what")}} }, "replay at"},
		"a short history": {func(uint64) [][][]byte { return [][][]byte{withTopic(endOfReplay, nil)} },
			"does not reach back"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket, at := zmq(t)
			source := Source{Server: model1, Publisher: at}
			if c.answer != nil {
				source.Replay = router(t, c.answer)
			}
			sub := subscriber(t, Config{}).Subscribe([]Source{source})
			seq, b := uint64(100), batch(t, e.stored(ids(256, 1), options{}))
			poll.NoError(t, "the reason is shown", poll.Limit, func() error {
				problem, known := sub.Problem(model1)
				if known == prefix.Partly && strings.Contains(problem, c.want) {
					return nil
				}
				send(t, socket, "", seq, b)
				seq++
				return fmt.Errorf("got %v (%s), want %v and %q", known, problem, prefix.Partly, c.want)
			})
		})
	}
}
