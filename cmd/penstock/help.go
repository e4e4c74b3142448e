package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

func referencePage(cmd *cobra.Command) string {
	words := strings.Fields(cmd.CommandPath())
	if len(words) < 2 || words[1] == "help" || words[1] == "completion" {
		return "docs/reference/index.md#commands"
	}
	page := "docs/reference/" + words[0] + "-" + words[1] + ".md"
	if len(words) > 2 {
		page += "#" + strings.Join(words, "-")
	}
	return page
}

func linkPages(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		fmt.Fprintf(cmd.OutOrStdout(), "\nReference: %s\n", referencePage(cmd))
	})
}
