package upload

import (
	"math"
	"testing"
)

var proxy = Proxy{Gateway: "default/gw", Address: "10.0.0.1"}

func TestUpload_LargeOnesLeaveRoomForSmallOnes(t *testing.T) {
	var l Ledger
	taken := 0
	for range 200 {
		if l.Open(proxy, 512<<20).Take(32 << 20) {
			taken++
		}
	}
	if taken != 15 { // the last upload finds room for 64 MiB
		t.Errorf("%d uploads of 32 MiB were taken, want 15", taken)
	}
	for range 100 {
		if !l.Open(proxy, 512<<20).Take(100 << 10) {
			t.Fatal("an upload of 100 KiB finds no room beside uploads of 32 MiB")
		}
	}
	if !l.Open(Proxy{Gateway: "default/gw", Address: "10.0.0.2"}, 512<<20).Take(32 << 20) {
		t.Error("uploads through one proxy take another one's room")
	}
}

func TestUpload_LimitIsNeverExceeded(t *testing.T) {
	var l Ledger
	for size := int64(1 << 25); size > 0; size /= 2 {
		u := l.Open(proxy, 100<<20)
		for u.Take(size) {
			if l.Held() > 100<<20 {
				t.Fatalf("%d bytes are held, want at most %d", l.Held(), 100<<20)
			}
		}
	}
	u := l.Open(Proxy{}, 1<<20)
	for _, n := range []int64{-1, math.MinInt64, math.MaxInt64, 1<<19 + 1} {
		if u.Take(n) {
			t.Errorf("%d bytes were taken, want them denied", n)
		}
	}
	first, second := u.Take(1<<18), u.Take(1<<18)
	if !first || !second || u.Take(1) {
		t.Error("a body that arrives in pieces counts otherwise than one whose length is declared")
	}
}

func TestUpload_EndReturnsItsBytes(t *testing.T) {
	var l Ledger
	u := l.Open(proxy, 64<<20)
	if !u.Take(32<<20) || l.Open(proxy, 64<<20).Take(32<<20) {
		t.Fatal("the limit does not count")
	}
	u.Close()
	if l.Held() != 0 || len(l.held) != 0 {
		t.Errorf("%d bytes, %d proxies are held, want 0 and 0", l.Held(), len(l.held))
	}
	if !l.Open(proxy, 64<<20).Take(32 << 20) {
		t.Error("an upload that has ended still counts")
	}
}

// A call may end before its body arrives.
func TestUpload_OneWithoutABodyEnds(t *testing.T) {
	var l Ledger
	l.Open(proxy, 64<<20).Close()
	if l.Held() != 0 {
		t.Errorf("%d bytes are held, want 0", l.Held())
	}
}
