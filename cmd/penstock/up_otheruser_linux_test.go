package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-project/penstock/picker/modelserver"
)

// dialAs connects with another user's permissions. It requires root.
func dialAs(uid int, network, address string) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // without unlock, the changed thread ends with the goroutine
		if err = syscall.Setfsuid(uid); err != nil {
			return
		}
		var c net.Conn
		if c, err = net.Dial(network, address); err == nil {
			_ = c.Close()
		}
	}()
	<-done
	return err
}

// serve without credentials accepts this user alone: ADS has private keys, and picks count as load.
func TestXDSSocket_OtherUsersOfTheMachineCannotConnect(t *testing.T) {
	t.Parallel()
	open := shortTemp(t) // others may traverse this folder, so the socket's mode decides
	if err := os.Chmod(open, 0o755); err != nil {
		t.Fatal(err)
	}
	chosen := []string{"--xds", "unix:" + filepath.Join(open, "ads"), "--picker",
		"unix:" + filepath.Join(open, "picker")}
	for name, flags := range map[string][]string{"default": nil, "chosen": chosen} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := prepare(t, chatFiles(freePort(t), modelServer(t, modelserver.Config{})))
			s.run("serve", flags...)
			s.out.expect(t, "ADS at ")
			at := regexp.MustCompile(`ADS at (\S+), endpoint picker at (\S+)`).FindStringSubmatch(s.out.String())
			for _, at := range at[1:] {
				network, address := "tcp", at
				if path, ok := strings.CutPrefix(at, unixPrefix); ok {
					network, address = "unix", path
					if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
						t.Errorf("the mode of the socket: got %v %v, want 0600", info.Mode(), err)
					}
				}
				if os.Geteuid() != 0 {
					t.Log("without root no other user can be tried")
				} else if err := dialAs(12345, network, address); err == nil {
					t.Errorf("another user connects to %s, want an error", at)
				}
			}
			conn, err := grpc.NewClient(at[1], grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			eventually(t, "this user's own Envoys are served", func() error { return listeners(t.Context(), conn) })
		})
	}
}
