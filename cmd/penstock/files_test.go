package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Flags name a FIFO instead of a file. The error has the flag and the path.
func TestFlags_FileThatNeverEndsIsNamed(t *testing.T) {
	dir := t.TempDir()
	fifo, pairs, config := filepath.Join(dir, "fifo"), filepath.Join(dir, "pairs"), filepath.Join(dir, "config")
	for _, d := range []string{pairs, config} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{fifo, filepath.Join(pairs, "tls.crt")} {
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	made := credentialsFor(t, filepath.Join(dir, "credentials"))
	in := func(name string) string { return filepath.Join(made, name) }
	named := filepath.Join(dir, "kubeconfig")
	text := `{"apiVersion": "v1", "kind": "Config", "current-context": "a", "users": [{"name": "a"}],
"contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
"clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "fifo"}}]}`
	if err := os.WriteFile(named, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key, ca := in("penstock.crt"), in("penstock.key"), in("ca.crt")
	xds := []string{"--xds-cert", cert, "--xds-key", key, "--xds-client-ca", ca, "--xds-token", fifo, "--xds-ca", ca}
	peers := []string{"--peers-listen", "127.0.0.1:0", "--peers-ca", ca, "--peers-cert", cert, "--peers-key", key}
	with := func(flags []string, name string) []string {
		out := slices.Clone(flags)
		for i := range out {
			switch {
			case i > 0 && out[i-1] == name:
				out[i] = fifo
			case out[i] == fifo:
				out[i] = in("ca.crt") // any text is accepted as a token
			}
		}
		return out
	}
	serve := []string{"serve", "-f", config, "--state", filepath.Join(dir, "state")}
	serve = append(serve, "--picker", "127.0.0.1:0")
	picker := []string{"picker", "-f", config, "--pool-name", "chat", "--state", filepath.Join(dir, "state")}
	for _, c := range []struct {
		args, more []string
		flag, path string
	}{
		{serve, with(xds, "--xds-cert"), "--xds-cert", fifo},
		{serve, with(xds, "--xds-key"), "--xds-key", fifo},
		{serve, with(xds, "--xds-client-ca"), "--xds-client-ca", fifo},
		{serve, with(xds, "--xds-token"), "--xds-token", fifo},
		{serve, with(xds, "--xds-ca"), "--xds-ca", fifo},
		{serve, with(peers, "--peers-ca"), "--peers-ca", fifo},
		{serve, with(peers, "--peers-cert"), "--peers-cert", fifo},
		{serve, with(peers, "--peers-key"), "--peers-key", fifo},
		{serve, []string{"--record", fifo}, "--record", fifo},
		{picker, []string{"--config-file", fifo}, "--config-file", fifo},
		{picker, []string{"--client-ca", fifo}, "--client-ca", fifo},
		{picker, []string{"--cert-path", pairs}, "--cert-path", filepath.Join(pairs, "tls.crt")},
		{[]string{"serve"}, []string{"--kubeconfig", fifo}, "--kubeconfig", fifo},
		{[]string{"serve"}, []string{"--kubeconfig", named}, "--kubeconfig", fifo},
		{[]string{"picker"}, []string{"--kubeconfig", fifo, "--pool-name", "chat"}, "--kubeconfig", fifo},
		{[]string{"hub"}, []string{"--kubeconfig", fifo}, "--kubeconfig", fifo},
		{[]string{"clusters", "drain"}, []string{"--kubeconfig", fifo}, "--kubeconfig", fifo},
	} {
		out, err := penstock(t, append(slices.Clone(c.args), c.more...)...)
		if err == nil || !strings.Contains(err.Error()+out, c.flag) || !strings.Contains(err.Error()+out, c.path) {
			t.Errorf("%s: got %v\n%s\nwant the flag and %s", c.flag, err, out, c.path)
		}
	}
}
