package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

// pluginsSection writes the table of the types of plugins, from the tables that documents are read by.
func pluginsSection(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("\n| Type | Role | In Penstock | Note |\n|---|---|---|---|\n")
	for _, p := range endpointpicker.Catalog() {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", p.Type, p.Role, p.Treatment, p.Note)
	}
	return b.String()
}
