package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-project/penstock/cmd/internal/external/commands"
)

func (r *reference) commands() string {
	rows := ""
	for _, cmd := range newRoot().Commands() {
		if !cmd.IsAvailableCommand() || cmd.Name() == "completion" || cmd.Name() == "help" {
			continue
		}
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		r.page(name, "the command's help", "`"+cmd.CommandPath()+"`", commandText(cmd, nil))
		rows += fmt.Sprintf("| [`%s`](%s.md) | %s |\n", cmd.CommandPath(), name, cmd.Short)
	}
	external := commands.New()
	r.page(external.Name(), "the commands' help", "`"+external.Name()+"`", commandText(external, nil))
	rows += fmt.Sprintf("| [`%s`](%[1]s.md) | %s |\n", external.Name(), external.Short)
	return table("Command | Purpose", rows)
}

// commandText renders the help of a command and its subcommands. seen maps a flag's description to
// the first command that has it; nil at the root.
func commandText(cmd *cobra.Command, seen map[string]string) string {
	var b strings.Builder
	if seen == nil { // the page's title is the heading
		seen = map[string]string{}
	} else {
		fmt.Fprintf(&b, "\n## `%s`\n\n", cmd.CommandPath())
	}
	b.WriteString(cmp.Or(strings.TrimSpace(cmd.Long), cmd.Short+".") + "\n\n")
	if !cmd.HasSubCommands() {
		fmt.Fprintf(&b, "```text\n%s\n```\n\n", cmd.UseLine())
	}
	var rows strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		value := ""
		if !slices.Contains([]string{"", "[]", "0", "0s", "false"}, f.DefValue) {
			value = "`" + strings.Trim(f.DefValue, "[]") + "`"
		}
		usage := oneLine(f.Usage)
		if first := seen[usage]; first != "" && len(usage) >= longText {
			usage = "as for `" + first + "`"
		} else {
			seen[usage] = cmd.CommandPath()
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s |\n", name, flagType(f), value, usage)
	})
	b.WriteString(table("Flag | Type | Default | Description", rows.String()))
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\n```sh\n%s\n```\n",
			strings.TrimPrefix(strings.ReplaceAll("\n"+cmd.Example, "\n  ", "\n"), "\n"))
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "completion" && sub.Name() != "help" {
			b.WriteString(commandText(sub, seen))
		}
	}
	return b.String()
}

func flagType(f *pflag.Flag) string {
	switch typ := f.Value.Type(); typ {
	case "stringSlice", "stringArray":
		return "list of strings"
	case "intSlice", "uintSlice":
		return "list of integers"
	case "int", "uint16":
		return "integer"
	case "float64":
		return "number"
	case "bool":
		return "switch"
	default:
		return typ
	}
}

func TestReference_HelpNamesItsPage(t *testing.T) {
	for args, want := range map[string]string{
		"help up":                 "docs/reference/penstock-up.md",
		"up --help":               "docs/reference/penstock-up.md",
		"help clusters drain":     "docs/reference/penstock-clusters.md#penstock-clusters-drain",
		"debug store show --help": "docs/reference/penstock-debug.md#penstock-debug-store-show",
		"help":                    "docs/reference/index.md#commands",
	} {
		out, err := penstock(t, strings.Fields(args)...)
		if err != nil || !strings.HasSuffix(out, "\nReference: "+want+"\n") {
			t.Errorf("penstock %s: got %q, %v; want %s at its end", args, out[max(0, len(out)-200):], err, want)
		}
	}
}
