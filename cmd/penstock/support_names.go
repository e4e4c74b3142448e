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

// Findings may name objects that do not exist, so names are also collected from specs.
var (
	// Values of unnamedKeys are set by Kubernetes, or are collected from the archive's pages.
	unnamedKeys = wordSet("status uid resourceVersion creationTimestamp managedFields")
	// Users choose the keys of namingKeys.
	namingKeys = wordSet("labels annotations matchLabels nodeSelector options")
	// Values of nameKeys are names, even if they equal a word of an enum.
	nameKeys    = wordSet("name namespace sectionName")
	objectWords = wordSet("None Cluster Local IPv4 IPv6 SingleStack PreferDualStack RequireDualStack")

	// Objects of settingsKinds have options of the process.
	settingsKinds = wordSet("AddressPolicy ProcessorDefault")

	ownLabel = regexp.MustCompile(`^([a-z.-]+\.)?(penstock\.dev|k8s\.io|x-k8s\.io|kubernetes\.io)/`)
	enumList = regexp.MustCompile(`(?m)^ *enum:\n((?: *- .*\n)+)`)
)

// learnObjects collects the names in all objects. It returns the first error after it has read all
// kinds.
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

// learnKind collects the group and kind of a reference to another project's object.
func (d *disguise) learnKind(reference map[string]any) {
	group, _ := reference["group"].(string)
	kind, _ := reference["kind"].(string)
	if kind != "" && strings.Contains(group, ".") && !own.MatchString(group) {
		d.learnName(group)
		d.learnName(kind)
	}
}

// learnName collects a name, but no expression or document, whose words are ordinary words.
func (d *disguise) learnName(value string) {
	if !strings.ContainsAny(value, " \t\n{") {
		d.name(value)
	}
}

func (d *disguise) enums() map[string]bool {
	if d.words != nil {
		return d.words
	}
	d.words = wordSet("")
	for w := range objectWords {
		d.words[w] = true
	}
	files, _ := manifests.CRDs() // embedded files have no errors
	for _, file := range files {
		for _, list := range enumList.FindAllSubmatch(file.YAML, -1) {
			for item := range bytes.Lines(list[1]) {
				d.words[strings.Trim(string(item), "- \"'\n")] = true
			}
		}
	}
	return d.words
}
