package processes

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// owner is the process that listens at the port of an engine's readiness check.
type owner int

const (
	unknown owner = iota // the system does not show it
	own                  // the engine or one of its descendants
	others               // another process
)

// address returns the address of a readiness URL; ok is false if it is "".
func address(ready string) (a netip.AddrPort, ok bool) {
	u, err := url.Parse(ready)
	if ready == "" || err != nil {
		return netip.AddrPort{}, false
	}
	a, err = netip.ParseAddrPort(u.Host)
	return a, err == nil
}

func takenReason(ready string) string {
	a, _ := address(ready)
	return "another process listens at " + a.String()
}

type listening struct {
	at    netip.AddrPort
	inode string
}

// stateListen is TCP_LISTEN of Linux's net/tcp_states.h, as in /proc/net/tcp.
const stateListen = "0A"

var errNotListening = errors.New("not a listening socket")

// parseListening reads a line of /proc/net/tcp or tcp6, see proc_pid_net(5). Each 4 bytes of an
// address are a number in the machine's byte order, which put writes.
func parseListening(line string, put func([]byte, uint32)) (listening, error) {
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != stateListen {
		return listening{}, errNotListening
	}
	host, port, _ := strings.Cut(fields[1], ":")
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || len(host) != 8 && len(host) != 32 {
		return listening{}, errNotListening
	}
	raw := make([]byte, len(host)/2)
	for i := 0; i < len(host); i += 8 {
		word, err := strconv.ParseUint(host[i:i+8], 16, 32)
		if err != nil {
			return listening{}, errNotListening
		}
		put(raw[i/2:], uint32(word))
	}
	ip, _ := netip.AddrFromSlice(raw)
	return listening{at: netip.AddrPortFrom(ip.Unmap(), uint16(n)), inode: fields[9]}, nil
}

// receivers returns the sockets that accept connections to an address: bound to it, or else to the
// unspecified address. With SO_REUSEPORT, there may be several.
func receivers(all []listening, to netip.AddrPort) (inodes map[string]bool) {
	any4, any6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	places := []netip.Addr{to.Addr(), any6}
	if to.Addr().Is4() {
		places = []netip.Addr{to.Addr(), any4, any6}
	}
	for _, place := range places {
		for _, l := range all {
			if l.at == netip.AddrPortFrom(place, to.Port()) {
				if inodes == nil {
					inodes = map[string]bool{}
				}
				inodes[l.inode] = true
			}
		}
		if inodes != nil {
			return inodes
		}
	}
	return nil
}
