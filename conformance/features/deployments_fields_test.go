package features

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDeployment_AccessLetsInKeysAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	key := s.keys("create", "alice")
	s.deployFixture("deployments_fields.yaml", with("gated"))
	becomes := func(what, want string, headers ...string) {
		t.Helper()
		s.becomes(what, want, func() string { return s.outcome("/", headers...) })
	}
	becomes("a request with a key", "200", bearer(key)...)
	becomes("a request without a key", "401 invalid_api_key")
	becomes("a request with another key", "401 invalid_api_key", bearer("sk-another")...)
	s.reports("AccessPolicy")
	// Without access the model is open. A change that adds access with a mistake closes it.
	s.write("deployments_fields.yaml", with("open"))
	becomes("a request without a key, after access is removed", "200")
	s.write("deployments_fields.yaml", with("gated"), swap("{apiKeys: {}}", "{apiKeyz: {}}"))
	becomes("a request with a key, while access is invalid", "403 policy_invalid", bearer(key)...)
	s.reports("a document of its ModelDeployment has spec.access and is not in use")
	s.write("deployments_fields.yaml", with("gated"),
		swap("model: {name: llama}", "model: {name: llama}\n  variables: {max-num-seq: 1}"))
	becomes("a request without a key, while a variable is invalid", "401 invalid_api_key")
	becomes("a request with a key, while a variable is invalid", "200", bearer(key)...)
}

func TestDeployment_SchedulerKeepsConversationsTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deployFixture("deployments_fields.yaml", with("chwbl"))
	s.reports("3 of 3 servers of model llama are ready")
	seen := map[string]bool{}
	for i := range 12 {
		turn := fmt.Sprintf(`{"role":"user","content":"question %d"}`, i)
		by := s.answered("/", `{"model":"llama","messages":[`+turn+`]}`).by()
		seen[by] = true
		turn += `,{"role":"assistant","content":"an answer"},{"role":"user","content":"and more"}`
		if next := s.answered("/", `{"model":"llama","messages":[`+turn+`]}`).by(); next != by || by == "" {
			t.Errorf("a conversation began at %q and went on at %q, want the same server", by, next)
		}
	}
	if len(seen) < 2 {
		t.Errorf("all conversations at %v, want at least 2 servers", seen)
	}
	s.write("deployments_fields.yaml", with("chwbl"), swap("loadFactorPercent: 10000", "load_factor: 1.25"))
	s.reports("did you mean loadFactorPercent: 125?")
}

// namedServer serves under the name in a variable, whose value is in a Secret.
const namedServer = `#!/bin/sh
[ -n "$UPSTREAM" ] || exit 1
exec PENSTOCK sim --listen "$1" --model "$2" --name "$SERVER"
`

const namedEngine = `
apiVersion: penstock.dev/v1alpha1
kind: Engine
metadata: {name: named}
spec:
  versions:
  - version: v1
    supportedTasks: [text-generation]
    deployTemplate:
      process: {program: named-server, args: ['${host}:${port}', '${model.servedName}']}
`

func (s *site) serverSecret(name, upstream string) {
	s.Write("secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: server}\nstringData: {"+name+upstream+"}\n")
}

func TestDeployment_EnvironmentComesFromASecretThatNothingPrints(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const canary = "canary-upstream-7"
	dir := t.TempDir()
	s.env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	s.executable(dir, "named-server", namedServer)
	s.Write("engine.yaml", namedEngine)
	s.deployFixture("deployments_fields.yaml", with("env"))
	s.reports("Pending: spec.env[0].valueFrom.secretKeyRef.name: there is no Secret server in the namespace default")
	s.serverSecret("name: first", "")
	s.reports("Pending: spec.env[1].valueFrom.secretKeyRef.key: Secret server has no key upstream")
	if all := engines(s, s.state); len(all) > 0 {
		t.Errorf("servers of a deployment without its Secret: got %v, want none", all)
	}
	s.serverSecret("name: first", ", upstream: "+canary)
	s.goes("/", "first", 3)
	s.serverSecret("name: second", ", upstream: "+canary)
	s.goes("/", "second", 3)
	s.drop("secret.yaml")
	s.reports("there is no Secret server in the namespace default")
	s.goes("/", "second", 3)
	texts := map[string]string{"status": s.status(), "output": s.output(), "translate": s.translated(),
		"status -o json": s.print("status", "-o", "json")}
	for _, kind := range []string{"ModelDeployment", "Secret", "Engine"} {
		texts["the page of "+kind] = s.page("/debug/store/" + kind)
	}
	err := filepath.WalkDir(filepath.Join(s.state, "engines"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		texts[path] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	saved, err := os.ReadFile(filepath.Join(s.state, "deployments.json"))
	if texts["deployments.json"] = string(saved); err != nil {
		t.Fatal(err)
	}
	for where, text := range texts {
		if strings.Contains(text, canary) {
			t.Errorf("%s has the value of the Secret, want it without:\n%s", where, text)
		}
	}
}

func TestDeployment_AdaptersAreRoutedToTheServersOfTheirModel(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deployFixture("deployments_fields.yaml", with("adapters"))
	s.answers("/", 200)
	if got := s.answered("/", adapterQuestion); got.by() != "llama-0" || !strings.Contains(got.body, `"model":"sql"`) {
		t.Errorf("%s answers a request for the adapter with %s, want llama-0 as sql", got.by(), got.body)
	}
	s.lists("", "llama", "sql of llama")
	// A deployment keeps its adapter's name if another deployment claims it, too.
	s.write("deployments_fields.yaml", with("adapters", "rival"))
	s.reports("ModelDeployment default/llama serves sql at the same Gateway; write another name")
}

func TestDeployment_OfAnotherClusterIsNotAccepted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.deployFixture("deployments_fields.yaml", with("elsewhere"))
	s.reports(`spec.cluster: there is no cluster "west" here: this cluster has no name`)
	s.reports("ClusterNotFound")
}
