//go:build lab

package apiserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

var apiKeys = schema.GroupVersionResource{Group: "penstock.dev", Version: "v1alpha1", Resource: "apikeys"}

func keysCommand(t *testing.T, stdin string, args ...string) (out, errs string, err error) {
	t.Helper()
	var text strings.Builder
	cmd := exec.CommandContext(t.Context(), "../../../bin/penstock", append([]string{"keys"}, args...)...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &text
	raw, err := cmd.Output()
	return strings.TrimSpace(string(raw)), text.String(), err
}

func hashed(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func (s *server) keySpec(t *testing.T, name string) (spec map[string]any, hashes []string) {
	t.Helper()
	u, err := s.client.Resource(apiKeys).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	spec, _, _ = unstructured.NestedMap(u.Object, "spec")
	hashes, _, _ = unstructured.NestedStringSlice(u.Object, "spec", "hashes")
	return spec, hashes
}

// The API server stores only a key's hash. A user without permission gets the reason.
func TestKeys_CreateRotateRevokeAndImportInACluster(t *testing.T) {
	s := start(t)
	config := s.kubeconfig(t)
	const missing = "does not serve the kind APIKey (penstock.dev/v1alpha1): install the CRDs"
	if _, errs, err := keysCommand(t, "", "create", "alice", "--kubeconfig", config); err == nil ||
		!strings.Contains(errs, missing) {
		t.Errorf("without the CRD: got %v %s, want %s", err, errs, missing)
	}
	s.install(t, "apikeys")
	var key string
	labtest.Until(t, "the key is created", func(context.Context) error {
		out, errs, err := keysCommand(t, "", "create", "alice", "--label", "team=research", "--expires", "1h",
			"--kubeconfig", config)
		if err == nil && !strings.Contains(errs, "APIKey default/alice is in https://") {
			t.Errorf("it prints %q, want where APIKey default/alice is", errs)
		}
		if key = out; err != nil {
			return fmt.Errorf("%w: %s", err, errs)
		}
		return nil
	})
	spec, hashes := s.keySpec(t, "alice")
	if !strings.HasPrefix(key, "sk-ps-") || !slices.Equal(hashes, []string{hashed(key)}) ||
		strings.Contains(fmt.Sprint(spec), key) || spec["expires"] == nil {
		t.Errorf("key %s is stored as %v, want its hash alone and when it expires", key, spec)
	}
	if _, errs, err := keysCommand(t, "", "create", "alice", "--kubeconfig", config); err == nil ||
		!strings.Contains(errs, "already exists") {
		t.Errorf("create a second time: got %v %s, want already exists", err, errs)
	}

	// The commands keep fields that other users wrote.
	if _, err := s.client.Resource(apiKeys).Namespace("default").Patch(t.Context(), "alice", types.MergePatchType,
		[]byte(`{"spec": {"groups": ["g"], "models": [], "pools": [{"name": "chat"}]}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	next, errs, err := keysCommand(t, "", "rotate", "alice", "--kubeconfig", config)
	if _, hashes = s.keySpec(t, "alice"); err != nil || !slices.Equal(hashes, []string{hashed(next), hashed(key)}) {
		t.Errorf("rotate: got %v %s: hashes %v, want hashes of the new and the old key", err, errs, hashes)
	}
	for _, args := range [][]string{{"rotate", "alice", "--finish"}, {"revoke", "alice"}} {
		if _, errs, err := keysCommand(t, "", append(args, "--kubeconfig", config)...); err != nil {
			t.Errorf("%v: %v %s", args, err, errs)
		}
	}
	spec, hashes = s.keySpec(t, "alice")
	models, isList := spec["models"].([]any)
	if !slices.Equal(hashes, []string{hashed(next)}) || spec["disabled"] != true || !isList || len(models) > 0 ||
		len(spec["pools"].([]any)) != 1 || len(spec["groups"].([]any)) != 1 {
		t.Errorf("at last: got %v, want one hash, disabled, no model, one pool and one group", spec)
	}
	s.importsKeys(t, config)

	// Without "nullable" in the CRD, the API server would drop null, so that Penstock could not
	// report it.
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "penstock.dev/v1alpha1", "kind": "APIKey",
		"metadata": map[string]any{"name": "null"},
		"spec":     map[string]any{"hashes": []any{hashed("null")}, "pools": nil}}}
	if _, err := s.client.Resource(apiKeys).Namespace("default").Create(t.Context(), u,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if spec, _ := s.keySpec(t, "null"); !slices.Contains(slices.Collect(maps.Keys(spec)), "pools") {
		t.Errorf("spec: got %v, want pools: null kept", spec)
	}
}

func (s *server) importsKeys(t *testing.T, config string) {
	t.Helper()
	const file = "bob old-key-of-bob\ncarol old-carol-key\n"
	for _, want := range []string{"New APIKeys: 2, in https://", "New APIKeys: 0. Keys that were there already: 2."} {
		if _, errs, err := keysCommand(t, file, "import", "-", "--kubeconfig", config); err != nil ||
			!strings.Contains(errs, want) {
			t.Errorf("import: %v %s, want %s", err, errs, want)
		}
	}
	name := "bob-" + hashed("old-key-of-bob")[:8]
	if spec, hashes := s.keySpec(t, name); !slices.Equal(hashes, []string{hashed("old-key-of-bob")}) ||
		spec["owner"] != "bob" {
		t.Errorf("%s: got %v, want owner bob and the hash of its key", name, spec)
	}
	if list, _, err := keysCommand(t, "", "list", "--kubeconfig", config); err != nil ||
		!strings.Contains(list, "default/alice") || !strings.Contains(list, "disabled") ||
		!strings.Contains(list, "default/"+name) {
		t.Errorf("list: got %v\n%s\nwant default/alice disabled, and default/%s", err, list, name)
	}

	rest := *s.rest
	rest.BearerToken = "stranger"
	stranger := &server{rest: &rest}
	_, errs, err := keysCommand(t, "", "create", "eve", "--kubeconfig", stranger.kubeconfig(t))
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(errs, "forbidden") {
		t.Errorf("a user without rights: got %v %s, want forbidden", err, errs)
	}
}
