package file_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/discovery/store"
)

const policyHead = "apiVersion: penstock.dev/v1alpha1\nkind: AccessPolicy\nmetadata: {name: p}\n"

func policyOn(target string) string {
	return policyHead + "spec: {targetRefs: [" + target + "], apiKeys: {}}\n"
}

const (
	onChat = "{kind: HTTPRoute, name: chat}"
	onGate = "{kind: Gateway, name: gw}"
)

// closed returns the closed policies in the store as "namespace/name Kind name/section ...". A
// policy without a readable name has the name "unnamed".
func (f *folder) closed() (out []string) {
	for _, p := range store.AccessPolicies.All(f.store.View()) {
		if p.Spec.Closed == 0 {
			continue
		}
		if p.Spec.APIKeys != nil || p.Spec.JWT != nil || len(p.Spec.Except) > 0 {
			f.t.Errorf("%s lets something in: got %+v, want no keys, tokens or exceptions", store.ID(p), p.Spec)
		}
		name, _, _ := strings.Cut(store.ID(p), "unnamed#")
		if name != store.ID(p) {
			name += "unnamed"
		}
		for _, t := range p.Spec.TargetRefs {
			name += fmt.Sprintf(" %s %s/%s", t.Kind, t.Name, t.SectionName)
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (f *folder) expectClosed(step string, want ...string) {
	f.t.Helper()
	if got := f.closed(); !slices.Equal(got, want) {
		f.t.Errorf("%s: closed are %q, want %q", step, got, want)
	}
}

const everything = " Gateway / HTTPRoute / GRPCRoute / InferencePool /"

// The readable targets of a new policy that is invalid are closed. If its targets cannot be read,
// everything that they may be is closed.
func TestAccessPolicy_RejectedNewOneClosesItsTargets(t *testing.T) {
	const chat = "default/p HTTPRoute chat/"
	for name, c := range map[string]struct{ text, want string }{
		"unknown field": {strings.Replace(policyOn(onChat), "apiKeys", "byModell: true, apiKeys", 1), chat},
		"wrong type":    {strings.Replace(policyOn(onChat), "apiKeys", "byModel: 7, apiKeys", 1), chat},
		"rule":          {strings.Replace(policyOn(onChat), ", apiKeys: {}", "", 1), chat},
		"exceptions": {strings.Replace(policyOn(onChat), "apiKeys", "except: [{name: chat}], ungated: Allow, "+
			"apiKeys", 1), chat},
		"duplicate key": {strings.Replace(policyOn(onChat), "apiKeys", "apiKeys: {}, apiKeys", 1), chat},
		"version":       {strings.Replace(policyOn(onChat), "v1alpha1", "v1", 1), chat},
		"group":         {strings.Replace(policyOn(onChat), "penstock.dev", "penstok.dev", 1), chat},
		"no version":    {strings.Replace(policyOn(onChat), "apiVersion: penstock.dev/v1alpha1\n", "", 1), chat},
		"name": {strings.Replace(policyOn(onChat), "name: p", "name: P_1", 1),
			"default/P_1 HTTPRoute chat/"},
		"no name":         {strings.Replace(policyOn(onChat), "name: p", "", 1), "default/unnamed HTTPRoute chat/"},
		"other cluster's": {strings.Replace(policyOn(onChat), "penstock.dev/v1alpha1", "a.example/v1", 1), ""},
		"no list":         {policyHead + "spec: {targetRefs: " + onChat + ", apiKeys: {}}\n", chat},
		"targetRef":       {policyHead + "spec: {targetRef: " + onChat + ", apiKeys: {}}\n", chat},
		"section": {policyOn("{kind: Gateway, name: gw, sectionName: a}, 7"),
			"default/p Gateway gw/a" + everything},
		"section of 7":   {policyOn("{kind: Gateway, name: gw, sectionName: 7}"), "default/p Gateway gw/"},
		"name of target": {policyOn("{kind: HTTPRoute, nme: chat}"), "default/p HTTPRoute /"},
		"kind of target": {policyOn("{kind: Gatway, name: gw}"),
			"default/p Gateway gw/ HTTPRoute gw/ GRPCRoute gw/ InferencePool gw/"},
		"targets twice": {strings.Replace(policyOn(onChat), "apiKeys", "targetRefs: ["+onGate+"], apiKeys", 1),
			"default/p" + everything},
		"no targets":    {policyHead + "spec: {apiKeys: {}}\n", "default/p" + everything},
		"no spec":       {policyHead, "default/p" + everything},
		"no YAML":       {policyHead + "spec: {\n", "default/unnamed" + everything},
		"namespace":     {"kind: AccessPolicy\nmetadata: {name: p, namespace: prod\n", "prod/unnamed" + everything},
		"comment":       {"# kind: AccessPolicy\nmetadata: {name: p\n", ""},
		"after a value": {"{}\n" + policyOn(onChat), "default/unnamed" + everything},
		"after an end":  {chatRoute + "...\n" + policyOn(onChat), "default/unnamed" + everything},
		"of a template": {"{{ if .x }}\n" + policyOn(onChat), "default/unnamed" + everything},
		"no separator":  {chatRoute + policyOn(onChat), "default/unnamed" + everything},
		"in a list": {"apiVersion: v1\nkind: List\nitems:\n- " +
			strings.ReplaceAll(strings.Replace(policyOn(onChat), "apiKeys: {}", "apiKeys: 7", 1), "\n", "\n  "), chat},
	} {
		f := newFolder(t)
		f.closes(name, c.text, c.want)
	}
}

func inList(item string) string {
	return "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(item), "\n", "\n  ") + "\n"
}

// If the key of a policy's namespace is mistyped or misplaced, the targets in this namespace are
// closed, too.
func TestAccessPolicy_MistypedNamespaceClosesThere(t *testing.T) {
	for _, text := range []string{
		strings.Replace(policyOn(onChat), "{name: p}", "{name: p, namepsace: prod}", 1),
		strings.Replace(policyOn(onChat), "{name: p}", "{name: p}\nnamespace: prod", 1),
		strings.Replace(policyOn(onChat), "metadata: {name: p}", "metadata: {name: p}\nMetadata: {namespace: prod}", 1),
	} {
		f := newFolder(t)
		f.write("x.yaml", text)
		f.load()
		f.expectClosed(text, "default/p HTTPRoute chat/", "prod/p HTTPRoute chat/")
		f.write("x.yaml", policyOn(onChat))
		f.load()
		f.expectClosed(text + "corrected")
	}
}

func TestFolder_ExtensionsHaveAnyCase(t *testing.T) {
	f := newFolder(t)
	f.write("x.YAML", policyHead)
	f.load()
	f.expectClosed("x.YAML", "default/p"+everything)
}

// A document with a mistyped kind or apiVersion may be an AccessPolicy. Its targets are closed, as
// for an invalid AccessPolicy.
func TestAccessPolicy_MistypedKindClosesItsTargets(t *testing.T) {
	const chat = "default/p HTTPRoute chat/"
	for name, c := range map[string]struct{ text, want string }{
		"kind":           {strings.Replace(policyOn(onChat), "AccessPolicy", "AccesPolicy", 1), chat},
		"kind in plural": {strings.Replace(policyOn(onChat), "AccessPolicy", "accesspolicies", 1), chat},
		"kind and group": {strings.NewReplacer("AccessPolicy", "AccesPolicy", "penstock.dev", "penstok.io").
			Replace(policyOn(onChat)), chat},
		"kind, no version": {"kind: AccesPolicy\nmetadata: {name: p}\nspec: {targetRefs: [" + onChat + "]}\n", chat},
		"kind, no YAML":    {"kind: AccesPolicy\nmetadata: {name: p\n", "default/unnamed" + everything},
		"kind in a core group": {strings.NewReplacer("AccessPolicy", "AccesPolicy", "penstock.dev/v1alpha1", "v1").
			Replace(policyOn(onChat)), chat},
		"other word as kind": {strings.Replace(policyOn(onChat), "AccessPolicy", "Policy", 1), chat},
		"other kind":         {strings.Replace(policyOn(onChat), "AccessPolicy", "PoolPolicy", 1), chat},
		"other kind, mistyped": {strings.NewReplacer("AccessPolicy", "PoolPolcy", ", apiKeys: {}", "").
			Replace(policyOn(onChat)), ""},
		"field of another kind": {"apiVersion: penstock.dev/v1alpha1\nkind: ModelDeployment\nmetadata: {name: p}\n" +
			"spec: {apiKeys: {}}\n", ""},
		"unknown kind": {"apiVersion: penstock.dev/v1alpha1\nkind: Budget\nmetadata: {name: p}\nspec: {}\n", ""},
		"no kind":      {strings.Replace(policyOn(onChat), "kind: AccessPolicy\n", "", 1), chat},
		"kind's key":   {strings.Replace(policyOn(onChat), "kind: Access", "Kind: Access", 1), chat},
		"kind's key, no YAML": {"apiVersion: penstock.dev/v1alpha1\nknd: AccessPolicy\nspec: {apiKeys: {}\n",
			"default/unnamed" + everything},
		"kind's key and targets, no YAML": {"apiVersion: penstock.dev/v1alpha1\nknd: AccessPolicy\n" +
			"spec: {apiKeys: {}, targetRefs: [" + onChat + "]\n", "default/unnamed" + everything},
		"neither kind nor version":  {"metadata: {name: p}\nspec: {targetRefs: [" + onChat + "], apiKeys: {}}\n", chat},
		"core version":              {strings.Replace(policyOn(onChat), "penstock.dev/v1alpha1", "v1", 1), chat},
		"version alone":             {strings.Replace(policyOn(onChat), "penstock.dev/v1alpha1", "v1alpha1", 1), chat},
		"group of a domain":         {strings.Replace(policyOn(onChat), "penstock.dev", "penstock.io", 1), chat},
		"another case of the group": {strings.Replace(policyOn(onChat), "penstock.dev", "Penstock.dev", 1), chat},
		"in Latin-1":                {"# g\xe9r\xe9\n" + policyOn(onChat), "default/unnamed" + everything},
		"in UTF-16": {"\xff\xfe" + strings.Join(strings.Split(policyOn(onChat), ""), "\x00"),
			"default/unnamed" + everything},
		"other text in Latin-1":  {"# g\xe9r\xe9\n" + chatRoute, ""},
		"in a list in a list":    {inList(inList(policyOn(onChat))), chat},
		"in a mistyped list":     {strings.Replace(inList(policyOn(onChat)), "List", "Lst", 1), chat},
		"in a list without kind": {strings.Replace(inList(policyOn(onChat)), "kind: List\n", "", 1), chat},
		"below another key":      {"policy:\n  " + strings.ReplaceAll(policyOn(onChat), "\n", "\n  "), chat},
		"name of a CRD": {"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: p}\n" +
			"spec: {names: {kind: AccessPolicy, plural: accesspolicies}}\n", ""},
		"other project's": {"apiVersion: gateway.envoyproxy.io/v1alpha1\nkind: SecurityPolicy\nmetadata: {name: p}\n" +
			"spec: {targetRefs: [" + onChat + "], jwt: {}}\n", ""},
		"deployment, no YAML": {"kind: ModelDeployment\nspec: {access: {apiKeys: {}}\n", ""},
	} {
		f := newFolder(t)
		f.closes(name, c.text, c.want)
	}
}

// closes checks which targets an invalid document closes. They stay closed over a restart, until
// the document is corrected or removed.
func (f *folder) closes(name, text, closed string) {
	f.t.Helper()
	f.write("x.yaml", text)
	f.load()
	var want []string
	if closed != "" {
		want = append(want, closed)
	}
	f.expectClosed(name, want...)
	f.restart()
	f.load()
	f.expectClosed(name+" after a restart", want...)
	f.write("x.yaml", policyOn(onChat))
	f.load()
	f.expectClosed(name + ", corrected")
	f.write("x.yaml", text)
	f.remove("x.yaml")
	f.load()
	if n := len(store.AccessPolicies.All(f.store.View())); n > 0 {
		f.t.Errorf("%s: %d policies stay, want none", name, n)
	}
}

// If a link to a file leads nowhere, the policies that were read through it stay in use.
func TestAccessPolicy_DanglingLinkKeepsIt(t *testing.T) {
	f := newFolder(t)
	f.write("x.yaml", chatRoute+"---\n"+policyOn(onChat))
	f.load()
	f.remove("x.yaml")
	if err := os.Symlink("nowhere", filepath.Join(f.dir, "x.yaml")); err != nil {
		t.Fatal(err)
	}
	for _, step := range []string{"", " after a restart"} {
		f.load()
		if n := len(store.AccessPolicies.All(f.store.View())); n != 1 {
			t.Errorf("policies%s: got %d, want 1", step, n)
		}
		f.restart()
	}
}

// A rejected change of a policy keeps the last good version in use, also over a restart.
func TestAccessPolicy_RejectedChangeClosesNothing(t *testing.T) {
	for name, text := range map[string]string{
		"wrong type": strings.Replace(policyOn(onGate), "apiKeys: {}", "apiKeys: 7", 1),
		"no targets": policyHead + "spec: {}\n",
		"no YAML":    policyHead + "spec: {\n",
		"no name":    strings.Replace(policyOn(onChat), "{name: p}", "{}", 1),
		"kind":       strings.Replace(policyOn(onChat), "AccessPolicy", "AccesPolicy", 1),
		"no kind":    strings.Replace(policyOn(onChat), "kind: AccessPolicy", "", 1),
	} {
		f := newFolder(t)
		f.write("x.yaml", policyOn(onChat))
		f.load()
		f.write("x.yaml", text)
		for range 2 {
			f.load()
			f.expectClosed(name)
			p, ok := store.AccessPolicies.Get(f.store.View(), "default/p")
			if !ok || p.Spec.TargetRefs[0].Name != "chat" || p.Spec.APIKeys == nil {
				t.Errorf("%s: got %+v, want the last good version in use", name, p)
			}
			f.restart()
		}
		f.write("x.yaml", text+"---\n"+policyHead+"spec: {\n") // broken, too
		f.load()
		if got := f.closed(); name[:2] == "no" && name != "no targets" && len(got) == 0 {
			t.Errorf("%s: a second unreadable document closes nothing, want some targets closed", name)
		}
	}
}

// If a policy has two definitions, the first is in use. The targets that only the second has are
// closed.
func TestAccessPolicy_SecondDefinitionClosesItsTargets(t *testing.T) {
	f := newFolder(t)
	f.write("x.yaml", policyOn(onChat)+"---\n"+policyOn(onGate+", "+onChat))
	f.load()
	f.expectClosed("both valid", "default/p#2 Gateway gw/")
	f.write("x.yaml", policyOn(onChat)+"---\n"+policyOn(onChat))
	f.load()
	f.expectClosed("the same")
	f.restart()
	f.write("x.yaml", policyHead+"spec: {targetRefs: ["+onChat+"]}\n---\n"+policyOn(onGate))
	f.state = t.TempDir()
	f.restart()
	f.load()
	f.expectClosed("the first is invalid", "default/p HTTPRoute chat/ Gateway gw/")
	f.write("x.yaml", policyOn(onChat)+"---\n"+strings.Replace(policyOn(onGate), "{}", "7", 1))
	f.load()
	f.expectClosed("the second is invalid", "default/p#2 Gateway gw/")
	f.write("x.yaml", policyOn(onChat))
	f.load()
	f.expectClosed("one definition")
}
