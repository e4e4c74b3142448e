package processes

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestLog_StaysWithinItsLimitWhileTheEngineWrites(t *testing.T) {
	s := supervise(t, t.TempDir())
	p := engine("ns/a/0", "flood")
	p.Env = append(p.Env, "LOG="+s.Log(p.Name))
	s.Want([]Process{p})
	st := untilPhase(t, s, p.Name, Running)
	seen, last := 0, int64(0)
	poll.Until(t, "five rotations", func() bool {
		now := size(s.Log(p.Name))
		if now < last {
			seen++
		}
		last = now
		if old := size(s.Log(p.Name) + oldEnd); old > quick.logLimit*5/4 {
			t.Fatalf("%d bytes in the old file, the limit is %d", old, quick.logLimit)
		}
		return seen >= 5
	})
	if now := stateOf(s, p.Name); now.PID != st.PID || now.Phase != Running {
		t.Errorf("state %+v", now)
	}
	for _, path := range []string{s.Log(p.Name), s.Log(p.Name) + oldEnd} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", path, info, err)
		}
		// The engine appends, so the truncated log has no hole at its start.
		if strings.Contains(content(t, path), "\x00") {
			t.Errorf("%s contains NUL bytes", path)
		}
	}
}

func TestLog_RotationKeepsTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	write := func(text string) {
		f, err := openLog(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	write("0123456789")
	if rotated, err := rotate(path, 10); rotated || err != nil {
		t.Fatal(rotated, err)
	}
	write("abcdef")
	if rotated, err := rotate(path, 10); !rotated || err != nil {
		t.Fatal(rotated, err)
	}
	if got := content(t, path+oldEnd); got != "6789abcdef" || size(path) != 0 {
		t.Errorf("old file %q, %d bytes in the new one", got, size(path))
	}
	write("new")
	for _, c := range []struct {
		from, n int64
		want    string
		whole   bool
	}{
		{0, 10, "new", true}, {1, 10, "ew", true}, {0, 2, "ew", false},
		{16, 5, "efnew", false}, {16, 99, "6789abcdefnew", false}, {16, 2, "ew", false},
	} {
		if got, whole := tail(path, c.from, c.n); string(got) != c.want || whole != c.whole {
			t.Errorf("tail(%d, %d) = %q, %v", c.from, c.n, got, whole)
		}
	}
	// A copy that fails does not keep the log over its limit.
	write(strings.Repeat("x", 20))
	if err := os.Mkdir(path+oldEnd+".new", 0o700); err != nil {
		t.Fatal(err)
	}
	if rotated, err := rotate(path, 10); !rotated || err == nil || size(path) != 0 {
		t.Errorf("rotated %v, error %v, %d bytes", rotated, err, size(path))
	}
}

func TestLog_OldestUnwantedLogsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	for i := range keptLogs + 5 {
		path := filepath.Join(dir, fmt.Sprintf("%03d%s", i, logEnd))
		for _, p := range []string{path, path + oldEnd} {
			if err := os.WriteFile(p, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	prune(dir, func(base string) bool { return base == "000" })
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2*(keptLogs+1) || !strings.HasSuffix(left[0], "000.log") ||
		!strings.HasSuffix(left[2], "005.log") {
		t.Errorf("%d files, %v: %v", len(left), err, left[:min(3, len(left))])
	}
}

func TestLastWords_HaveNoSecretAndNoControlCharacter(t *testing.T) {
	secret := "s3cr3t/with \"quotes\"&more"
	for _, c := range []struct {
		text  string
		whole bool
		want  string
	}{
		{"key=" + secret + " end", true, "key=[redacted] end"},
		{"?q=" + url.QueryEscape(secret) + " end", true, "?q=[redacted] end"},
		{`{"k":"s3cr3t/with \"quotes\"\u0026more"}`, true, `{"k":"[redacted]"}`},
		{"twice " + secret + secret, true, "twice [redacted]"},
		{"half a line " + secret[:9], true, "half a line [redacted]"},
		{secret[5:] + strings.Repeat(".", 60) + " end", false, strings.Repeat(".", 60-5) + " end"},
		{"\x1b[31mred\x1b[0m \x1b]0;title\x07\x08bell\x07\r\n\n 10%\r 20%\n\xff\xfe", true, "red bell\n 10%\n 20%"},
		{"", true, ""},
		{secret, true, "[redacted]"},
		{secret, false, ""},
	} {
		got := lastWords([]byte(c.text), c.whole, []string{"", secret})
		if c.whole && got != c.want || !c.whole && strings.Contains(got, secret[5:9]) {
			t.Errorf("%q gives %q, want %q", c.text, got, c.want)
		}
	}
	for _, text := range []string{
		strings.ToLower(url.QueryEscape(secret)), strings.ReplaceAll(url.PathEscape(secret), "%2F", "/"),
		`s3cr3t/with \"quotes\"&more`, hex.EncodeToString([]byte(secret)), fmt.Sprintf("%X", secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte("me:" + secret)),
		base64.StdEncoding.EncodeToString([]byte("user:" + secret)), base64.StdEncoding.EncodeToString([]byte("x" + secret +
			" and more")), "s3cr3t...", "s3cr3t/with…", "s3cr**********more",
	} {
		got := lastWords([]byte("key "+text+" end"), true, []string{secret})
		if !strings.HasPrefix(got, "key ") || !strings.HasSuffix(got, " end") || !strings.Contains(got, hidden) ||
			len(got) > len("key  end")+2*len(hidden)+10 {
			t.Errorf("%s is shown as %q", text, got)
		}
	}
	header := "Authorization: Bearer abcdef0123456789abcdef"
	if got := lastWords([]byte(header), true, nil); strings.Contains(got, "abcdef") {
		t.Errorf("got %q", got)
	}
	long := strings.Repeat("line of a log that never ends\n", 1000) + strings.Repeat("ä", 3000)
	if got := lastWords([]byte(long), true, nil); len(got) > wordsKept || !strings.HasSuffix(got, "ä") ||
		strings.ContainsRune(got, '\uFFFD') {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	lines := lastWords([]byte(strings.Repeat("a\n", 100)), true, nil)
	if got := strings.Count(lines, "a"); got != wordsLines {
		t.Errorf("%d lines", got)
	}
}

func FuzzLastWords_NeverShowASecret(f *testing.F) {
	f.Add("before ", "Tr0ub4dor&3", " after", 10)
	f.Add("", "aaaaaaaa", "aaaa", 3)
	f.Add("x\ny", "two\nlines of it", "\x1b[0m", 0)
	f.Fuzz(func(t *testing.T, before, secret, after string, cut int) {
		if secret = strings.TrimSpace(secret); len(secret) < 8 || strings.Contains(hidden, secret) ||
			strings.Contains(before, secret) || strings.Contains(after, secret) {
			return
		}
		text := before + secret + after
		cut = max(0, min(cut, len(text)))
		got := lastWords([]byte(text[cut:]), cut == 0, []string{secret})
		if strings.Contains(got, secret) {
			t.Errorf("%q shows %q", got, secret)
		}
	})
}

func TestFileName_IsShortAndUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"a/b", "a_b", "a/b/0", "../../etc/passwd", ".hidden", strings.Repeat("x", 1000), ""} {
		base := fileName(name)
		if seen[base] || len(base) > 120 || strings.ContainsAny(base, "/") || strings.HasPrefix(base, ".") {
			t.Errorf("%q gives %q", name, base)
		}
		seen[base] = true
	}
}
