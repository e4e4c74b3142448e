package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestRelease_DifferingBytesAreCounted(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		a + "/same": "equal", b + "/same": "equal", a + "/changed": "abcd", b + "/changed": "abXdef",
		a + "/missing": "123", a + "/sub/SUMS.sig": "one", b + "/sub/SUMS.sig": "other",
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if differing, files, err := differingBytes(a, b); err != nil || differing != 1+2+3 || files != 3 {
		t.Errorf("%d bytes of %d files differ: %v, want %d and 3", differing, files, err, 1+2+3)
	}
}

func TestRelease_StreamedAnswerIsThatOfItsStep(t *testing.T) {
	for text, want := range map[string]bool{
		"✓ both gateways serve\n1  Two pools\n✓ fine\n":                      false,
		"✓ both gateways serve\n2  A streamed answer\n   words\n":            false,
		"✓ both gateways serve\n2  A streamed answer\n   words\n   ✓ fine\n": true,
	} {
		if got := streamedAnswer(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
