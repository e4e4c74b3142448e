package ports

import (
	"context"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/penstock-project/penstock/xds/admission"
)

// Port is a kind of listener.
type Port struct {
	Name string
	// Clients describes the intended clients.
	Clients string
	// Share is the port's part of the process's file descriptors (RLIMIT_NOFILE), between 0 and 1.
	Share float64
	// Attack is the port's test in conformance/promises/attacks.
	Attack string
}

var (
	ADS    = Port{"ads", "Envoys", 0.2, "TestXDSCredentials_IdleConnectionsLockOutNoEnvoy"}
	Picker = Port{"picker", "Envoys, and Gateways of members", 0.25, "TestPicker_IdleConnectionsLockOutNoGateway"}
	Peers  = Port{"peers", "other processes of this control plane", 0.05,
		"TestClusterSet_StrangersLearnNothingAndCostNothing"}
	Members = Port{"members", "Penstocks of other clusters", 0.1, "TestClusterSet_RequestsOfAMemberAreBounded"}
	Pages   = Port{"http", "Prometheus and the kubelet", 0.05, "TestMetrics_ClientsThatDoNotReadCostNoMemory"}
	Admin   = Port{"admin", "people, on this machine", 0.03, "TestAdmin_DNSRebindingReadsNothing"}
	Health  = Port{"health", "the kubelet", 0.02, "TestHealth_AnswersFromTheFirstMoment"}
	Events  = Port{"kv-events", "model servers", 0.05, "TestKVEvents_HostileServerThatDialsHarmsNoOtherServer"}
	// Local is the Unix socket in the state folder, for this user only.
	Local = Port{"local", "commands of this user", 0.05, "TestState_FolderIsPrivate"}
	// External is the only port of penstock-external.
	External = Port{"external", "pickers", 0.5, "TestProcess_HostilePromptsHarmThemselvesAlone"}
)

// All are the ports of penstock.
var All = []Port{ADS, Picker, Peers, Members, Pages, Admin, Health, Events, Local}

const least = 16

// Most is the maximum number of connections.
func (p Port) Most() int { return max(int(p.Share*float64(descriptors())), least) }

func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return min(uint64(limit.Cur), 1<<20)
}

// Listen opens a "tcp" or "unix" socket. Only this process's user may connect to a Unix socket.
func (p Port) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	var config net.ListenConfig
	if network == "unix" {
		config.Control = private
	}
	l, err := config.Listen(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if network == "unix" {
		if err := os.Chmod(address, 0o600); err != nil {
			_ = l.Close()
			return nil, err
		}
	}
	return &listener{l, p}, nil
}

// private sets the mode before bind, so that no other user connects before chmod. Only Linux keeps
// this mode; elsewhere the call may fail.
func private(_, _ string, c syscall.RawConn) error {
	return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
}

type listener struct {
	net.Listener
	port Port
}

// SetDeadline makes a blocked Accept return at t.
func (l *listener) SetDeadline(t time.Time) error {
	if at, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); ok {
		return at.SetDeadline(t)
	}
	return nil
}

// Limit bounds a listener's connections by the share of the Port that opened it, otherwise of p.
// `with` has further limits.
func (p Port) Limit(l net.Listener, with admission.Config) net.Listener {
	if own, ok := l.(*listener); ok {
		l, p = own.Listener, own.port
	}
	with.Most = p.Most()
	return admission.Listen(l, with)
}

// Open is Limit for clients that do not authenticate.
func (p Port) Open(l net.Listener) net.Listener {
	return p.Limit(l, admission.Config{Trusting: true})
}
