package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

func callPicker(t *testing.T, port int, server string, certificate ...tls.Certificate) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", port),
		grpc.WithTransportCredentials(
			credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, ServerName: server, Certificates: certificate})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const exportedChat = "chat.default.east.pool.penstock"

func picksAreForMembers(t *testing.T, picker int, server string, home, south *testMember) {
	t.Helper()
	at := home.gateway("home")
	for what, c := range map[string]struct {
		conn *grpc.ClientConn
		md   []string
		want codes.Code
	}{
		"a member": {
			callPicker(t, picker, exportedChat, at), []string{"x-penstock-pool", "default/chat"}, codes.OK,
		},
		"a pool that is not exported": {
			callPicker(t, picker, exportedChat, at), []string{"x-penstock-pool", "default/own"}, codes.PermissionDenied,
		},
		"no pool": {callPicker(t, picker, exportedChat, at), nil, codes.PermissionDenied},
		"room for a body": {
			callPicker(t, picker, exportedChat, at),
			[]string{"x-penstock-pool", "default/chat", "x-penstock-upload", "1000"},
			codes.PermissionDenied,
		},
		"a member that it is not exported to": {
			callPicker(t, picker, exportedChat, south.gateway("south")), []string{"x-penstock-pool", "default/chat"},
			codes.PermissionDenied,
		},
		"a member in another's name": {
			callPicker(t, picker, exportedChat, south.gateway("home")), []string{"x-penstock-pool", "default/chat"},
			codes.Unavailable,
		},
		"a member without a certificate": {
			callPicker(t, picker, exportedChat), []string{"x-penstock-pool", "default/chat"}, codes.Unavailable,
		},
		"a name of another cluster": {
			callPicker(t, picker, "chat.default.west.pool.penstock", at), []string{"x-penstock-pool", "default/chat"},
			codes.Unavailable,
		},
		"a member's certificate, and no name": {
			callPicker(t, picker, "penstock", at), []string{"x-penstock-pool", "default/chat"}, codes.Unauthenticated,
		},
		"without certificate and name": {
			callPicker(t, picker, "penstock"), []string{"x-penstock-pool", "default/chat"}, codes.Unauthenticated,
		},
		"a claim to be a gateway elsewhere, alone": {
			callPicker(t, picker, "penstock"), []string{"x-penstock-pool", "default/chat", "x-penstock-import", "true"},
			codes.Unauthenticated,
		},
	} {
		if got, err := asked(t, c.conn, c.md...); status.Code(err) != c.want || err == nil && got != server {
			t.Errorf("%s: %q %v, want %v", what, got, err, c.want)
		}
	}
}

// Members' Gateways authenticate by their certificates, so the picker needs no --picker-open. Envoy
// calls the picker for /chat; for /far, the member's own picker relays.
func TestPeerListener_MembersPickWithoutAnOpenPicker(t *testing.T) {
	t.Parallel()
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	port, picker, peer := freePort(t), freePort(t), freePort(t)
	home, south := newTestMember(t, "home"), newTestMember(t, "south")
	server := serverNamed(t, "east-1")
	files := chatFiles(freePort(t), server)
	files["policy.yaml"] =
		"apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: chat}\nspec: {targetRef: {name: " +
			"chat}, picker: {failureMode: FailClose}}\n"
	files["set.yaml"] = withPeers(clusterSetYAML("east"), peer)
	files["pool.yaml"] = exportedPool(exportAnnotation + ", penstock.dev/export-to: 'here,home'")
	files["own.yaml"] = poolYAML("own") + "---\n" + serversYAML("own", serverNamed(t, "east-own"))
	east := up(t, files, "--members-listen", "127.0.0.1:0", "--picker", fmt.Sprintf("127.0.0.1:%d", picker),
		"--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca", in("ca.crt"),
		"--drain-time", "1s")
	relayed := strings.NewReplacer("{pool:", "{peer: true, pool:", ", appProtocol: kubernetes.io/h2c", "", "name: west",
		"name: east").Replace(relayedYAML("far", server, picker, "default/chat"))
	here := up(t, map[string]string{
		"gateway.yaml": gatewayYAML("gw", port), "set.yaml": clusterSetYAML("here", east.show()),
		"chat.yaml": routeYAML("chat", "/chat", toImport("chat")),
		"far.yaml":  relayed + "---\n" + routeYAML("far", "/far", toImport("far")),
	}, "--members-listen", "127.0.0.1:0")
	members := func(list ...string) { east.write("set.yaml", withPeers(clusterSetYAML("east", list...), peer)) }
	members(here.show(), home.member(), south.member())
	for _, path := range []string{"/chat", "/far"} {
		eventually(t, path+" is served", func() error {
			if got, err := chat(t.Context(), local(port)+path); err != nil || got.status != http.StatusOK ||
				got.header.Get("x-served-by") != "east-1" {
				return fmt.Errorf("got %d %s %v, want 200 from east-1; status here:\n%s\nin the other cluster:\n%s",
					got.status, got.body, err, here.penstock("status"), east.penstock("status"))
			}
			return nil
		})
	}
	if text := here.errs.String(); strings.Contains(text, "did not answer its probe") {
		t.Errorf("the log: got\n%s\nwant no probe of Penstock's picker", text)
	}
	if text := here.penstock("status"); strings.Contains(text,
		"its picker over TLS, and the certificate is not verified") {
		t.Errorf("status: got\n%s\nwant the picker verified", text)
	}

	picksAreForMembers(t, picker, server, home, south)

	held := callPicker(t, picker, exportedChat, south.gateway("south"))
	east.write("pool.yaml", exportedPool(exportAnnotation))
	eventually(t, "exported to all", func() error {
		_, err := asked(t, held, "x-penstock-pool", "default/chat")
		return err
	})
	members(here.show())
	eventually(t, "a member that has left is denied", func() error {
		if _, err := asked(t, held, "x-penstock-pool", "default/chat"); status.Code(err) != codes.PermissionDenied {
			return fmt.Errorf("got %v, want PermissionDenied", err)
		}
		return nil
	})
	answers(t, local(port)+"/chat", http.StatusOK)
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	eventually(t, "not exported", func() error {
		if text := east.penstock("status"); !strings.Contains(text, "give the ClusterSet a peerListener") {
			return fmt.Errorf("status: got %s, want a finding to give a peerListener", text)
		}
		return nil
	})
}
