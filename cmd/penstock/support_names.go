package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests"
)

// Findings name objects that do not exist, so names are taken from everything that users write:
// metadata and specs of all objects.
var (
	// Values of unnamedKeys are assigned by Kubernetes, or are on the pages of the archive.
	unnamedKeys = wordSet("status uid resourceVersion creationTimestamp managedFields")
	// Users choose the keys of namingKeys.
	namingKeys = wordSet("labels annotations matchLabels nodeSelector options")
	// In specs, values of these keys are names even if an enum has the same word.
	nameKeys = wordSet("name namespace sectionName")
	// objectWords are values of fields of Service, Pod and EndpointSlice.
	objectWords = wordSet("None Cluster Local IPv4 IPv6 SingleStack PreferDualStack RequireDualStack")

	// Objects of settingsKinds are options of the process.
	settingsKinds = wordSet("AddressPolicy ProcessorDefault")

	ownLabel = regexp.MustCompile(`^([a-z.-]+\.)?(penstock\.dev|k8s\.io|x-k8s\.io|kubernetes\.io)/`)
	enumList = regexp.MustCompile(`(?m)^ *enum:\n((?: *- .*\n)+)`)
)

// learnObjects learns the names in all objects of a process. It returns the first error, after it
// has read all kinds.
func (d *disguise) learnObjects(ctx context.Context, at running) (failed error) {
	for _, table := range store.Tables() {
		if settingsKinds[table.Kind()] {
			continue
		}
		var page struct{ Objects []any }
		body, err := at.open(ctx, "/debug/store/"+url.PathEscape(table.Kind()))
		if err == nil {
			decoder := json.NewDecoder(bufio.NewReader(body))
			decoder.UseNumber()
			err = decoder.Decode(&page)
			_ = body.Close()
		}
		if err != nil && failed == nil {
			failed = err
		}
		for _, object := range page.Objects {
			d.learnNames("", object)
		}
	}
	return failed
}

func (d *disguise) learnNames(key string, value any) {
	switch v := value.(type) {
	case string:
		if !keptKeys[key] && (nameKeys[key] || !d.enums()[v]) {
			d.learnName(v)
		}
	case []any:
		for _, item := range v {
			d.learnNames(key, item)
		}
	case map[string]any:
		d.learnKind(v)
		for k, item := range v {
			if unnamedKeys[k] {
				continue
			}
			if namingKeys[key] {
				if !ownLabel.MatchString(k) {
					d.learnName(k)
				}
				k = ""
			}
			d.learnNames(k, item)
		}
	}
}

// learnKind learns the kind that a reference names if it is neither Kubernetes' nor Penstock's.
func (d *disguise) learnKind(reference map[string]any) {
	group, _ := reference["group"].(string)
	kind, _ := reference["kind"].(string)
	if kind != "" && strings.Contains(group, ".") && !own.MatchString(group) {
		d.learnName(group)
		d.learnName(kind)
	}
}

// learnName skips expressions and documents: their words are a language's, and findings quote them.
func (d *disguise) learnName(value string) {
	if !strings.ContainsAny(value, " \t\n{") {
		d.name(value)
	}
}

// enums has the words that fields of Penstock's kinds allow.
func (d *disguise) enums() map[string]bool {
	if d.words != nil {
		return d.words
	}
	d.words = wordSet("")
	for w := range objectWords {
		d.words[w] = true
	}
	files, _ := manifests.CRDs() // embedded: cannot fail
	for _, file := range files {
		for _, list := range enumList.FindAllSubmatch(file.YAML, -1) {
			for item := range bytes.Lines(list[1]) {
				d.words[strings.Trim(string(item), "- \"'\n")] = true
			}
		}
	}
	return d.words
}
