package network

import (
	"fmt"
	"strings"
	"time"
)

// Effect selects how packets of a link are handled.
type Effect string

const (
	Heal Effect = "heal" // packets arrive again
	Cut  Effect = "cut"  // no packet arrives, and no error comes back
	// no packet arrives; the sender gets a TCP reset, or for other protocols an ICMP error (host
	// unreachable)
	Reject Effect = "reject"
	Drop   Effect = "drop"  // a share of the packets, chosen at random, does not arrive
	Delay  Effect = "delay" // packets arrive later
)

// Fault is how one direction of a link handles packets.
type Fault struct {
	Effect Effect `json:"effect"`
	// Port limits Cut, Reject and Drop to TCP connections that have this port at either end; 0
	// means all packets.
	Port uint16 `json:"port,omitempty"`
	// Share is the percentage of packets that Drop drops, 1 to 99.
	Share int `json:"share,omitempty"`
	// By is the additional delay of Delay, up to MaxDelay.
	By time.Duration `json:"by,omitempty"`
}

// MaxDelay is the longest delay of a link.
const MaxDelay = 10 * time.Second

// Check returns an error for an invalid fault.
func (f Fault) Check() error {
	switch f.Effect {
	case Heal, Cut, Reject, Drop, Delay:
	default:
		return fmt.Errorf("effect %q: a link has cut, reject, drop, delay or heal", f.Effect)
	}
	if f.Port != 0 && (f.Effect == Heal || f.Effect == Delay) {
		return fmt.Errorf("port %d: %s concerns all packets of a link: leave the port out", f.Port, f.Effect)
	}
	if (f.Effect == Drop) != (f.Share != 0) || f.Share < 0 || f.Share > 99 {
		return fmt.Errorf("share %d: drop, and nothing else, needs a share of 1 to 99 percent (cut drops all packets)",
			f.Share)
	}
	if (f.Effect == Delay) != (f.By != 0) || f.By < 0 || f.By > MaxDelay {
		return fmt.Errorf("delay of %s: delay, and nothing else, needs more than 0s and up to %s", f.By, MaxDelay)
	}
	return nil
}

func (f Fault) rules(in string) string {
	which := []string{""}
	if f.Port != 0 {
		which = []string{fmt.Sprintf("tcp dport %d ", f.Port), fmt.Sprintf("tcp sport %d ", f.Port)}
	}
	var b strings.Builder
	if f.Effect == Reject {
		fmt.Fprintf(&b,
			"    iifname %q tcp flags rst accept\n    iifname %q icmp type destination-unreachable accept\n", in, in)
	}
	for _, w := range which {
		match := fmt.Sprintf("    iifname %q %s", in, w)
		switch f.Effect {
		case Cut:
			b.WriteString(match + "drop\n")
		case Reject:
			b.WriteString(match + "meta l4proto tcp reject with tcp reset\n")
			if f.Port == 0 {
				b.WriteString(match + "reject with icmpx type host-unreachable\n")
			}
		case Drop:
			fmt.Fprintf(&b, "%snumgen random mod 100 < %d drop\n", match, f.Share)
		}
	}
	return b.String()
}
