package usage

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/request"
)

var noon = time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC)

type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func keeper(t *testing.T, folder string, c *clock) *Keeper {
	t.Helper()
	return New(Config{Folder: folder, Process: "p", Now: c.read, Log: slog.New(slog.DiscardHandler)})
}

func answered(owner string, input, output uint64) accesslog.Used {
	return accesslog.Used{Caller: owner, Pool: "ns/chat", Model: "llama", Kind: request.ChatCompletions, Status: 200,
		Accounted: true, Input: input, Output: output, Sent: 500, Received: 100}
}

// end leaves only files, like a kill.
func (k *Keeper) end() {
	k.database.close()
	if k.journal.open != nil {
		_ = k.journal.open.Close()
	}
}

func total(t *testing.T, k *Keeper, since time.Duration) Counts {
	t.Helper()
	a := k.Read(t.Context(), Query{Since: since})
	if a.Problem != "" {
		t.Fatal(a.Problem)
	}
	if len(a.Rows) == 0 {
		return Counts{}
	}
	return a.Rows[0].Counts
}

func TestUsage_RowsAreHourlyByOwnerModelAndPool(t *testing.T) {
	c := &clock{noon}
	k := keeper(t, t.TempDir(), c)
	defer k.end()
	k.Log([]accesslog.Used{answered("ns/alice", 10, 2), answered("ns/alice", 20, 3), answered("ns/bob", 1, 1)})
	c.now = noon.Add(time.Hour)
	k.Log([]accesslog.Used{answered("ns/alice", 5, 5), {Denied: true}})
	got := k.Read(t.Context(), Query{By: []string{"hour", "owner", "model", "pool"}, Since: 24 * time.Hour})
	at := noon.Truncate(time.Hour).Unix()
	row := func(hour int64, owner string, requests, input, output int64) Row {
		return Row{Key{hour, owner, "llama", "ns/chat"}, Counts{Requests: requests, Input: input, Output: output}}
	}
	want := []Row{row(at, "ns/alice", 2, 30, 5), row(at, "ns/bob", 1, 1, 1),
		{Key{Hour: at + 3600}, Counts{Denied: 1}}, row(at+3600, "ns/alice", 1, 5, 5)}
	if diff := cmp.Diff(want, got.Rows); diff != "" || got.Problem != "" || got.Since != at {
		t.Error(diff, got.Problem, got.Since)
	}
	if n := total(t, k, time.Minute); n.Requests != 1 || n.Denied != 1 {
		t.Error("of this hour alone:", n)
	}
}

func TestUsage_KillCountsOnce(t *testing.T) {
	dir, c := t.TempDir(), &clock{noon}
	k := keeper(t, dir, c)
	k.Log([]accesslog.Used{answered("ns/alice", 10, 2)})
	k.write()
	k.end() // a kill before the segment is closed
	k = keeper(t, dir, c)
	if n := total(t, k, time.Hour); n.Requests != 1 {
		t.Error("after the first kill:", n)
	}
	k.Log([]accesslog.Used{answered("ns/alice", 10, 2)})
	list, err := k.rotate(true)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	b, err := readSegment(list[0])
	if err != nil {
		t.Fatal(err)
	}
	// A kill after the commit, before the segment is removed.
	if err := k.database.apply(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	k.end()
	if a, err := ReadFolder(t.Context(), dir, Query{Since: time.Hour}, c.read); err != nil || len(a.Rows) != 1 ||
		a.Rows[0].Requests != 2 {
		t.Error("without a process:", a, err)
	}
	k = keeper(t, dir, c)
	if n := total(t, k, time.Hour); n.Requests != 2 {
		t.Error("after the second kill:", n)
	}
	for range 3 {
		if err := k.database.apply(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	if n := total(t, k, time.Hour); n.Requests != 2 {
		t.Error("after repeated writes:", n)
	}
	k.end()
}

func TestUsage_TornSegmentKeepsItsWholeLines(t *testing.T) {
	dir, c := t.TempDir(), &clock{noon}
	k := keeper(t, dir, c)
	k.Log([]accesslog.Used{answered("ns/alice", 10, 2)})
	k.write()
	path := k.journal.open.Name()
	k.end()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	torn := string(text) + `{"hour":1,"owner":"x","req`
	torn += "\n" + `{"hour":1,"owner":"x","requests":-5,"input":-9223372036854775808}` + "\n" +
		strings.Repeat("x", 1<<17)
	for name, content := range map[string]string{filepath.Base(path): torn, "20200101T000000-x.000000001.rows": `{"pro`,
		"20200101T000000-y.000000001.rows": ""} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k = keeper(t, dir, c)
	defer k.end()
	if n := total(t, k, time.Hour); n.Requests != 1 || n.Input != 10 {
		t.Error(n)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Error("segments stay:", left)
	}
}

// If the clock is set back, counts are for earlier hours, but are neither lost nor repeated.
func TestUsage_ClockSetBackCountsOnce(t *testing.T) {
	dir, c := t.TempDir(), &clock{noon}
	for i := range 4 {
		c.now = noon.Add(-time.Duration(i) * 5 * time.Hour)
		k := keeper(t, dir, c)
		k.Log([]accesslog.Used{answered("ns/alice", 1, 1)})
		k.write()
		k.end()
	}
	c.now = noon
	k := keeper(t, dir, c)
	defer k.end()
	if n := total(t, k, 24*time.Hour); n.Requests != 4 {
		t.Error(n)
	}
	c.now = time.Unix(-1, 0)
	k.Log([]accesslog.Used{answered("ns/alice", 1, 1)})
	if n := total(t, k, time.Hour); n.Requests != 5 {
		t.Error("before 1970:", n)
	}
}

// If the database or the disk fails, no count is lost, and the oldest waiting count's age is
// reported.
func TestUsage_WaitsForItsDatabase(t *testing.T) {
	dir, c := t.TempDir(), &clock{noon}
	if err := os.Mkdir(File(dir), 0o700); err != nil { // a folder is where the file should be
		t.Fatal(err)
	}
	var late []string
	k := New(Config{Folder: dir, Process: "p", Now: c.read, Log: slog.New(slog.DiscardHandler),
		Late: func(age time.Duration, why string) { late = append(late, fmt.Sprint(age > 0, why != "")) }})
	defer k.end()
	k.Log([]accesslog.Used{answered("ns/alice", 10, 2)})
	a := k.Read(t.Context(), Query{By: []string{"owner"}, Since: time.Hour})
	if a.Problem == "" || len(a.Rows) != 1 || a.Rows[0].Requests != 1 {
		t.Errorf("got %+v, want a problem, and one row of 1 request", a)
	}
	c.now = time.Now().Add(2 * time.Hour) // a segment's time is its file's modification time
	if err := k.applyAll(t.Context()); err == nil || len(late) != 1 || late[0] != "true true" {
		t.Error(err, late)
	}
	if err := os.Remove(File(dir)); err != nil {
		t.Fatal(err)
	}
	if err := k.applyAll(t.Context()); err != nil || !slices.Equal(late, []string{"true true", "false false"}) {
		t.Error(err, late)
	}
	c.now = noon
	if n := total(t, k, time.Hour); n.Requests != 1 {
		t.Error(n)
	}
}

func TestUsage_FullDiskKeepsCountsInMemory(t *testing.T) {
	dir, c := t.TempDir(), &clock{noon}
	// A file is where the folder should be.
	if err := os.WriteFile(filepath.Join(dir, "journal"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := keeper(t, dir, c)
	defer k.end()
	for range 3 {
		k.Log([]accesslog.Used{answered("ns/alice", 10, 2)})
		k.write()
	}
	a := k.Read(t.Context(), Query{By: []string{"owner"}, Since: time.Hour})
	if a.Problem == "" || len(a.Rows) != 1 || a.Rows[0].Requests != 3 {
		t.Errorf("got %+v, want a problem, and one row of 3 requests", a)
	}
	if err := os.Remove(filepath.Join(dir, "journal")); err != nil {
		t.Fatal(err)
	}
	if n := total(t, k, time.Hour); n.Requests != 3 {
		t.Error(n)
	}
}

func TestUsage_MillionOwnersAreBounded(t *testing.T) {
	k := keeper(t, "", &clock{noon})
	for i := range 1_000_000 {
		k.Log([]accesslog.Used{answered(fmt.Sprint("ns/", i), 1, 1)})
	}
	var n int64
	for _, c := range k.held {
		n += c.Requests
	}
	if len(k.held) > 2*maxKeys+10 || n != 1_000_000 || len(k.series.owners) > maxSeries+1 {
		t.Errorf("%d rows of %d requests, %d series; want at most %d, all 1000000, and at most %d",
			len(k.held), n, len(k.series.owners), 2*maxKeys+10, maxSeries+1)
	}
}

// The SQLite file is bounded: the oldest hours are dropped, and a single hour loses names.
func TestUsage_FileIsBounded(t *testing.T) {
	before := sizeLimit
	sizeLimit = 1 << 20
	defer func() { sizeLimit = before }()
	dir, c := t.TempDir(), &clock{noon}
	k := keeper(t, dir, c)
	defer k.end()
	for hours := range 30 {
		c.now = noon.Add(time.Duration(hours) * time.Hour)
		for i := range 1000 {
			k.Log([]accesslog.Used{answered(fmt.Sprint("ns/a-long-name-of-an-owner-", i), 1, 1)})
		}
		if err := k.applyAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := total(t, k, time.Minute); n.Requests != 1000 {
		t.Error("of the last hour:", n)
	}
	for range 20 {
		for i := range 1000 {
			owner := fmt.Sprint("ns/another-long-name-of-an-owner-", i, time.Now().UnixNano())
			k.Log([]accesslog.Used{answered(owner, 1, 1)})
		}
		if err := k.applyAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := total(t, k, time.Minute); n.Requests != 21_000 {
		t.Error("of the last hour:", n)
	}
	if info, err := os.Stat(File(dir)); err != nil || info.Size() > 3<<20 {
		t.Error(info.Size(), err)
	}
}

func TestUsage_CountsOfOneRequest(t *testing.T) {
	stream := accesslog.Used{Caller: "ns/a", Kind: request.ChatCompletions, Model: "llama", Status: 200, Stream: true,
		PromptTokens: 40, PromptCached: 30, Sent: 100 * 205, Received: 400, GPU: time.Second}
	change := func(f func(*accesslog.Used)) accesslog.Used { u := stream; f(&u); return u }
	estimated := Counts{Requests: 1, Estimated: 1, Input: 40, Cached: 30, Output: 100, GPUSeconds: 1}
	for name, tt := range map[string]struct {
		used accesslog.Used
		want Counts
	}{
		"an account":       {answered("ns/a", 10, 2), Counts{Requests: 1, Input: 10, Output: 2}},
		"a denial":         {accesslog.Used{Denied: true, Status: 401}, Counts{Denied: 1}},
		"a stream":         {stream, estimated},
		"a failure":        {change(func(u *accesslog.Used) { u.Status = 503 }), Counts{Requests: 1, Failed: 1}},
		"no response":      {change(func(u *accesslog.Used) { u.Status = 0 }), Counts{Requests: 1, Failed: 1}},
		"a Service's page": {accesslog.Used{Caller: "ns/a", Status: 200, Sent: 5000}, Counts{Requests: 1}},
		"a redirect":       {accesslog.Used{Caller: "ns/a", Status: 302}, Counts{Requests: 1}},
		"2^63 tokens": {change(func(u *accesslog.Used) { u.Accounted, u.Output = true, 1<<63 }),
			estimated},
		"the largest input": {change(func(u *accesslog.Used) { u.Accounted, u.Input = true, math.MaxUint64 }),
			estimated},
		"sums that wrap": {change(func(u *accesslog.Used) {
			u.Accounted, u.Input, u.Output = true, math.MaxUint64, 1
		}), estimated},
		"more cached than read": {change(func(u *accesslog.Used) { u.Accounted, u.Input, u.CacheRead = true, 5, 9 }),
			Counts{Requests: 1, Input: 5, Cached: 5, GPUSeconds: 1}},
		"a cut stream": {change(func(u *accesslog.Used) { u.Cut = true }),
			Counts{Requests: 1, Failed: 1, Estimated: 1, Input: 40, Cached: 30, Output: 100, GPUSeconds: 1}},
	} {
		var e estimates
		used := tt.used
		if diff := cmp.Diff(tt.want, e.count(&used)); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

func TestUsage_EstimatesFollowAccounts(t *testing.T) {
	var e estimates
	u := accesslog.Used{Caller: "ns/a", Pool: "ns/p", Kind: request.ChatCompletions, Status: 200, Stream: true,
		PromptTokens: 100, Sent: 500 * 400}
	u.Accounted, u.Input, u.Output = true, 150, 500 // 400 bytes for each token
	for range 20 {
		e.count(&u)
	}
	u.Accounted = false
	got := e.count(&u)
	if got.Input < 135 || got.Input > 150 || got.Output < 475 || got.Output > 525 {
		t.Errorf("got %+v, want 135 to 150 tokens in, 475 to 525 out", got)
	}
	u.Pool = "ns/other"
	if other := e.count(&u); other.Input != 100 || other.Output < 900 {
		t.Errorf("another pool: got %+v, want 100 tokens in, and at least 900 out", other)
	}
}

func TestUsage_NamesFitDatabases(t *testing.T) {
	k := keeper(t, t.TempDir(), &clock{noon})
	defer k.end()
	bad := answered("ns/a", 1, 1)
	bad.Model = "\xff\x00'; DROP TABLE penstock_usage; --" + strings.Repeat("é", 300)
	k.Log([]accesslog.Used{bad})
	got := k.Read(t.Context(), Query{By: []string{"model"}, Since: time.Hour})
	if got.Problem != "" || len(got.Rows) != 1 || !strings.Contains(got.Rows[0].Model, "DROP TABLE") ||
		len(got.Rows[0].Model) > maxName {
		t.Errorf("got %+v, want one row whose model has at most %d bytes of the text", got, maxName)
	}
}

func TestQuery_NamesWhatIsWrong(t *testing.T) {
	for text, q := range map[string]Query{
		"is no column": {By: []string{"owner; DROP TABLE x"}, Since: 1},
		"twice":        {By: []string{"owner", "owner"}, Since: 1},
		"no time":      {Since: 0},
	} {
		if err := q.Check(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: got %v, want %q", q, err, text)
		}
	}
}

func TestUsage_EndWritesCounts(t *testing.T) {
	dir, c := t.TempDir(), &clock{noon}
	k := keeper(t, dir, c)
	ctx, stop := context.WithCancel(t.Context())
	k.Log([]accesslog.Used{answered("ns/alice", 1, 1)})
	stop()
	_ = k.Run(ctx)
	a, err := ReadFolder(t.Context(), dir, Query{Since: time.Hour}, c.read)
	if err != nil || len(a.Rows) != 1 || a.Rows[0].Requests != 1 {
		t.Errorf("got %+v %v, want one row of 1 request", a, err)
	}
}

func TestMerge_AddsTheRowsOfPods(t *testing.T) {
	row := func(owner string, requests int64) Row {
		return Row{Key{Owner: owner}, Counts{Requests: requests, Input: 1}}
	}
	got := Merge([]Answer{
		{Since: 7200, From: 3600, Rows: []Row{row("ns/a", 2), row("ns/b", 3)}},
		{Since: 3600, From: 3600, Late: 9, Problem: "full", Rows: []Row{row("ns/a", 4)}},
		{From: 3600}, // a pod that has counted nothing
	})
	want := Answer{Since: 3600, From: 3600, Late: 9, Problem: "full",
		Rows: []Row{{Key{Owner: "ns/a"}, Counts{Requests: 6, Input: 2}}, row("ns/b", 3)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The estimate for an answer without usage excludes text that its API does not return. Even a short
// answer counts.
func TestUsage_EstimatesOfWholeAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    request.Kind
		sent    int64
		encoded bool
		least   int64
		most    int64
	}{
		"a short completion":      {request.Completions, 200, false, 1, 1},
		"a completion":            {request.Completions, 1050, false, 150, 250},
		"a compressed completion": {request.Completions, 500, true, 150, 350},
		"embeddings":              {request.Embeddings, 20 << 20, false, 0, 0},
		"rerank":                  {request.Rerank, 1 << 20, true, 0, 0},
		"no body":                 {request.Completions, 0, false, 0, 0},
	} {
		var e estimates
		c := e.count(&accesslog.Used{Caller: "ns/alice", Kind: tt.kind, Status: 200, Received: 400, Sent: tt.sent,
			Encoded: tt.encoded})
		if c.Estimated != 1 || c.Input != 100 || c.Output < tt.least || c.Output > tt.most {
			t.Errorf("%s: %+v, want output from %d to %d", name, c, tt.least, tt.most)
		}
	}
}

func TestUsage_CutRequestsCountOnce(t *testing.T) {
	c := &clock{noon}
	k := keeper(t, t.TempDir(), c)
	defer k.end()
	entry := func(id string, inFlight bool, sent int64) accesslog.Used {
		return accesslog.Used{ID: id, Open: inFlight, Caller: "ns/alice", Pool: "ns/chat",
			Kind: request.ChatCompletions, Status: 200, Stream: true, Received: 400, Sent: sent}
	}
	k.Log([]accesslog.Used{entry("gone", true, 2000)})
	c.now = c.now.Add(openFor + time.Second)
	k.Log([]accesslog.Used{entry("ended", true, 1000), entry("cut", true, 2000)})
	c.now = c.now.Add(2 * time.Second)
	k.Log([]accesslog.Used{entry("ended", false, 2000), entry("cut", true, 4000)})
	if n := total(t, k, time.Hour); n.Requests != 1 || n.Failed != 0 {
		t.Error("before the end:", n)
	}
	k.Cut()
	k.Cut()
	want := total(t, k, time.Hour)
	if want.Requests != 2 || want.Failed != 1 || want.Estimated != 2 || want.Output < 20 {
		t.Error("after the end:", want)
	}
	k.Log([]accesslog.Used{entry("cut", false, 4000)})
	if n := total(t, k, time.Hour); n != want {
		t.Error("with the last entry:", n)
	}
}

// A pod without a database has counts only from its first count on, even if that hour began
// earlier.
func TestUsage_PodCountsSinceItsFirstRow(t *testing.T) {
	c := &clock{noon}
	k := keeper(t, "", c)
	if since := k.Read(t.Context(), Query{Since: 24 * time.Hour}).Since; since != 0 {
		t.Errorf("without a row it counts since %d, want 0", since)
	}
	k.Log([]accesslog.Used{answered("alice", 10, 2)})
	c.now = c.now.Add(2 * time.Hour)
	k.Log([]accesslog.Used{answered("alice", 10, 2)})
	own := k.Read(t.Context(), Query{Since: 24 * time.Hour})
	if own.Since != noon.Unix() {
		t.Errorf("it counts since %d, want %d", own.Since, noon.Unix())
	}
	younger := Answer{Since: noon.Add(time.Minute).Unix()}
	if since := Merge([]Answer{younger, own}).Since; since != noon.Unix() {
		t.Errorf("with another pod it counts since %d, want %d", since, noon.Unix())
	}
	folder := keeper(t, t.TempDir(), c)
	defer folder.end()
	folder.Log([]accesslog.Used{answered("alice", 10, 2)})
	since, want := folder.Read(t.Context(), Query{Since: time.Hour}).Since, noon.Add(90*time.Minute).Unix()
	if since != want {
		t.Errorf("a folder, whose rows may be older than the process, counts since %d, want the hour %d", since, want)
	}
}
