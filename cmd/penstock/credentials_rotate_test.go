package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/kube/kubetest"
	"github.com/penstock-project/penstock/xds/authority"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestRotate_RunningProcessPublishesTheNewAuthority(t *testing.T) {
	t.Parallel()
	s := prepare(t, map[string]string{"set.yaml": clusterSetYAML("east")})
	s.run("serve", "--picker", "127.0.0.1:0", "--members-listen", "127.0.0.1:0")
	before := s.show()
	out := s.penstock("credentials", "rotate", "--overlap", "10m")
	if !strings.Contains(out, "signs from ") || strings.Contains(out, "No penstock runs") ||
		!strings.Contains(out, "penstock clusters show") {
		t.Errorf("it prints %s, want when the new authority signs, and penstock clusters show", out)
	}
	eventually(t, "clusters show has both authorities", func() error {
		if text := s.show(); strings.Count(text, "BEGIN CERTIFICATE") != strings.Count(before, "BEGIN CERTIFICATE")+1 {
			return fmt.Errorf("it has %s, want one more certificate", text)
		}
		return nil
	})
	s.stop()
	if out := s.penstock("credentials", "rotate"); !strings.Contains(out, "No penstock runs") {
		t.Errorf(`without a process it prints %s, want a text with "No penstock runs"`, out)
	}
}

func TestRotate_SecretsOfAClusterAreReplaced(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: %q}}],
contexts: [{name: c, context: {cluster: c, namespace: penstock-system}}], current-context: c}`, api.Config().Host)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := app.Authorities(api.Config(), "penstock-system")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := penstock(t, "credentials", "rotate", "--kubeconfig", config); err == nil ||
		!strings.Contains(err.Error(), "--namespace") {
		t.Errorf("without a Secret: got %v %s, want --namespace", err, out)
	}
	const name = "penstock-members-ca"
	a := authority.New(authority.Config{Secrets: all[name], Names: []string{"penstock"}})
	ctx, stop := context.WithCancel(t.Context())
	go func() { _ = a.Run(ctx) }()
	err = a.Ready(ctx)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	out, err := penstock(t, "credentials", "rotate", "--kubeconfig", config)
	if err != nil || strings.Count(out, "a new authority") != 1 ||
		!strings.Contains(out, "Secret penstock-system/"+name+":") {
		t.Errorf("it prints %s, %v, want one new authority, of Secret %s", out, err, name)
	}
	poll.NoError(t, "the Secret has both authorities", poll.Limit, func() error {
		data, _, err := all[name].Read(t.Context())
		if next, _ := pem.Decode(data["next.crt"]); err == nil && next == nil {
			err = fmt.Errorf("it has %d entries, want next.crt", len(data))
		}
		return err
	})
}

func TestRotate_MistakesAreErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"there is no authority: penstock makes it when it first runs, with a ClusterSet": {"--state", dir},
		"--overlap 1s: write 1m0s or more": {
			"--state", dir, "--overlap", "1s",
		},
		"--state and --kubeconfig are both given": {
			"--state", dir, "--kubeconfig", dir,
		},
	} {
		if out, err := penstock(t, append([]string{"credentials", "rotate"}, args...)...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %s, want %s", args, err, out, want)
		}
	}
}
