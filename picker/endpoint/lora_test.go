package endpoint

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoRA_LatestLineCounts(t *testing.T) {
	const queue = "vllm:num_requests_waiting 0\n"
	for _, tt := range []struct {
		name, page string
		want       *Adapters
	}{
		{"none", "", nil},
		{"several lines",
			`vllm:lora_requests_info{max_lora="4",running_lora_adapters="old",waiting_lora_adapters=""} 1.7e+09
vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql, chat",waiting_lora_adapters="chat,law"} 1.700000002e+09
vllm:lora_requests_info{max_lora="4",running_lora_adapters="older",waiting_lora_adapters=""} 1.6e+09
`, &Adapters{Running: []string{"sql", "chat"}, Waiting: []string{"law"}, Max: 4}},
		{
			"no adapters yet",
			`vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters=""} 1` + "\n",
			&Adapters{Max: 2},
		},
		{
			"other labels, escapes",
			`vllm:lora_requests_info{engine="0", max_lora="-3", running_lora_adapters="a\"}b\\" } 1` + "\n",
			&Adapters{Running: []string{`a"}b\`}},
		},
		{"without labels", "vllm:lora_requests_info 1\n", nil},
		{"broken", "vllm:lora_requests_info{max_lora=\"1\n", nil},
	} {
		r, err := parse(queue+tt.page, Metrics{})
		if diff := cmp.Diff(tt.want, r.Adapters); err != nil || diff != "" {
			t.Errorf("%s: error %v, want none; adapters (-want +got):\n%s", tt.name, err, diff)
		}
	}
}

func TestLoRA_SlotsAreOfRunningAndWaitingAdapters(t *testing.T) {
	a := &Adapters{Running: []string{"sql"}, Waiting: []string{"law"}, Max: 3}
	full := &Adapters{Running: []string{"sql"}, Waiting: []string{"law"}, Max: 2}
	if !a.Has("sql") || !a.Has("law") || a.Has("chat") || !a.Free() || full.Free() {
		t.Errorf("%+v: want sql and law, not chat, and a free slot of 3; of 2, none", a)
	}
	var unknown *Adapters
	if unknown.Has("sql") || unknown.Free() {
		t.Error("a server that shows no adapters has some, or room for some")
	}
}

func FuzzLoRA_NamesAreOfThePage(f *testing.F) {
	f.Add([]byte(`vllm:lora_requests_info{max_lora="4",running_lora_adapters="sql,chat",` +
		`waiting_lora_adapters="law"} 1.7e+09`))
	f.Add([]byte(`vllm:lora_requests_info{running_lora_adapters="a\n\"b",max_lora="99999999999999999999"} 2`))
	f.Fuzz(func(t *testing.T, page []byte) {
		r, err := parse(string(page), Metrics{})
		if err != nil || r.Adapters == nil {
			return
		}
		plain := strings.NewReplacer(`\n`, "\n", `\`, "").Replace(string(page))
		for _, name := range append(r.Adapters.Running, r.Adapters.Waiting...) {
			if name == "" || !strings.ContainsRune(name, '\\') && !strings.Contains(plain, name) {
				t.Errorf("adapter %q is not in %q", name, page)
			}
		}
		if r.Adapters.Max < 0 {
			t.Error("negative slots")
		}
	})
}
