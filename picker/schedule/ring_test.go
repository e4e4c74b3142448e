package schedule

import (
	"testing"

	"github.com/penstock-project/penstock/picker/endpoint"
)

// The positions and owners are from Python's hashlib and bisect_left.
func TestCHWBL_GoldenRing(t *testing.T) {
	list := []endpoint.Endpoint{{Text: "10.0.0.1:8000"}, {Text: "10.0.0.2:8000"}, {Text: "10.0.0.3:8000"},
		{Text: "[fd00::1]:8000"}}
	whole := newRing(100, list, nil)
	grown := newRing(100, list, newRing(100, list[1:3], nil))
	for _, tt := range []struct {
		key   string
		hash  uint64
		owner string
	}{
		{"system:You are helpful.|user_0:Hello|user_1:Bye", 0xf344f685f8e11ac2, "10.0.0.1:8000"},
		{"system:b|user_0:u|user_1:v", 0x4ad0797b446349ab, "[fd00::1]:8000"},
		{"user_0:one two", 0x2d4ae54e7cc6fe9c, "10.0.0.2:8000"},
		{"user_0:é 😀 \"q\" \\ \n", 0x2895dae95eabbbf0, "10.0.0.2:8000"},
		{"user_0:", 0x9a21f78bfabd5d04, "10.0.0.1:8000"},
		{"{\"messages\":[]}", 0x394daf1a187e2f2a, "10.0.0.3:8000"},
		{"{\"prompt\":\"x\"}", 0x7712ee49e49a88b4, "[fd00::1]:8000"},
		{"user_0:0", 0x09cdb447e6b1b744, "[fd00::1]:8000"},
		{"user_0:1", 0xf80b9ad7d0d4c829, "10.0.0.3:8000"},
		{"user_0:2", 0x2fb7f87c5994db79, "10.0.0.3:8000"},
		{"user_0:3", 0x3013a69d8dd799bb, "10.0.0.3:8000"},
		{"user_0:4", 0xf8a944d743568cc3, "10.0.0.2:8000"},
		{"user_0:5", 0x76c09fb33d97f582, "[fd00::1]:8000"},
		{"user_0:6", 0x87e9ab0741fcc399, "[fd00::1]:8000"},
		{"user_0:7", 0xcdf2c2c35d1876a4, "10.0.0.1:8000"},
		{"user_0:8", 0x7174182e7d5b5028, "10.0.0.1:8000"},
		{"user_0:9", 0x7ed5ed51ccf2a636, "10.0.0.3:8000"},
		{"user_0:10", 0x9e13b0c1d8481c07, "[fd00::1]:8000"},
		{"user_0:11", 0x9eeb4cd0f13adaeb, "10.0.0.3:8000"},
	} {
		for _, r := range []*ring{whole, grown} {
			if hash := hash64([]byte(tt.key)); hash != tt.hash ||
				list[r.points[r.successor(hash)].endpoint].Text != tt.owner {
				t.Errorf("%q: %x at %s, want %x at %s", tt.key, hash, list[r.points[r.successor(hash)].endpoint].Text,
					tt.hash, tt.owner)
			}
		}
	}
	last := whole.points[len(whole.points)-1].at
	if whole.successor(last) != len(whole.points)-1 || whole.successor(last+1) != 0 {
		t.Error("the successor of a position is not itself, or the ring has an end")
	}
}
