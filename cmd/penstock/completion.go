package main

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/multicluster/hub"
	"github.com/penstock-project/penstock/multicluster/set"
	"github.com/penstock-project/penstock/xds/server"
)

const completionTimeout = 2 * time.Second

func asPlugin(root *cobra.Command, program string) {
	name := strings.TrimSuffix(filepath.Base(program), ".exe")
	if name != "kubectl-penstock" {
		return
	}
	const called = "kubectl penstock"
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: called}
	var rename func(*cobra.Command)
	rename = func(cmd *cobra.Command) {
		lines := strings.Split(cmd.Example, "\n")
		for i, line := range lines {
			if rest, ok := strings.CutPrefix(line, "  penstock "); ok {
				lines[i] = "  " + called + " " + rest
			}
		}
		cmd.Example = strings.Join(lines, "\n")
		for _, sub := range cmd.Commands() {
			rename(sub)
		}
	}
	rename(root)
}

// suggest completes an argument with list's names. After an error, list returns none, because a
// shell cannot show errors.
func suggest(list func(ctx context.Context, args []string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			ctx = context.Background()
		}
		ctx, cancel := context.WithTimeout(ctx, completionTimeout)
		defer cancel()
		all := slices.DeleteFunc(list(ctx, args), func(name string) bool { return !strings.HasPrefix(name, begun) })
		slices.Sort(all)
		return slices.Compact(all), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *target) objects(ctx context.Context, kinds ...string) (out []string) {
	at, err := a.running(ctx)
	for _, kind := range kinds {
		var answer struct {
			Objects []struct {
				Metadata struct{ Namespace, Name string }
			}
		}
		if err == nil {
			err = at.get(ctx, "/debug/store/"+kind, &answer)
		}
		if err != nil {
			return a.written(ctx, kinds)
		}
		for _, o := range answer.Objects {
			out = append(out, strings.TrimPrefix(objectid.Join(o.Metadata.Namespace, o.Metadata.Name), "/"))
		}
	}
	return out
}

func (a *target) written(ctx context.Context, kinds []string) (out []string) {
	if len(a.paths) == 0 || ctx.Err() != nil {
		return nil
	}
	processor, err := defaultProcessor()
	if err != nil {
		return nil
	}
	files, err := app.NewOffline(app.OfflineConfig{Paths: a.paths, Processor: processor,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil
	}
	out, _ = files.Names(ctx, kinds...)
	return out
}

func first(kinds ...string) func(*target) cobra.CompletionFunc {
	return func(a *target) cobra.CompletionFunc {
		return suggest(func(ctx context.Context, args []string) []string {
			if len(args) > 0 {
				return nil
			}
			return a.objects(ctx, kinds...)
		})
	}
}

func kindThenName(a *target) cobra.CompletionFunc {
	return suggest(func(ctx context.Context, args []string) (out []string) {
		switch len(args) {
		case 0:
			for _, table := range store.Tables() {
				out = append(out, table.Kind())
			}
		case 1:
			return a.objects(ctx, args[0])
		}
		return out
	})
}

func kindOnly(a *target) cobra.CompletionFunc {
	both := kindThenName(a)
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return both(cmd, args, begun)
	}
}

func nodes(a *target) cobra.CompletionFunc {
	return suggest(func(ctx context.Context, args []string) (out []string) {
		all, err := a.replicas(ctx)
		if err != nil || len(args) > 0 {
			return nil
		}
		answers, _, _ := fromAll[[]server.ProxyStatus](ctx, all, "/proxies")
		for _, proxy := range slices.Concat(answers...) {
			out = append(out, proxy.Node)
		}
		return out
	})
}

func (a *target) targets() cobra.CompletionFunc {
	return suggest(func(ctx context.Context, _ []string) []string {
		out := a.objects(ctx, store.InferencePools.Kind())
		imports := a.objects(ctx, store.InferencePoolImports.Kind())
		if len(imports) == 0 {
			return out
		}
		var members []string
		if at, err := a.running(ctx); err == nil {
			var status set.Status
			if at.get(ctx, "/clusters", &status) == nil {
				for _, m := range status.Members {
					members = append(members, m.Name)
				}
			}
		}
		for _, name := range imports {
			out = append(out, name+"@")
			for _, member := range members {
				out = append(out, name+"@"+member)
			}
		}
		return out
	})
}

func oneOf(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// someOf completes a comma-separated list of allowed values, without repetitions.
func someOf(cmd *cobra.Command, flag string, values ...string) {
	_ = cmd.RegisterFlagCompletionFunc(flag,
		func(_ *cobra.Command, _ []string, begun string) (out []string, _ cobra.ShellCompDirective) {
			list := begun[:strings.LastIndex(begun, ",")+1]
			for _, v := range values {
				if !slices.Contains(strings.Split(list, ","), v) && strings.HasPrefix(list+v, begun) {
					out = append(out, list+v)
				}
			}
			return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		})
}

func (c *cluster) contexts(context.Context, []string) (out []string) {
	_, loaded, err := hub.Kubeconfig(&c.disk, c.file())
	if err != nil {
		return nil
	}
	return slices.Collect(maps.Keys(loaded.Contexts))
}

func (k *keyFlags) names(ctx context.Context, args []string) (out []string) {
	place, err := k.place()
	if err != nil || len(args) > 0 {
		return nil
	}
	all, _ := place.list(ctx)
	for i := range all {
		if all[i].Namespace == k.namespace {
			out = append(out, all[i].Name)
		}
	}
	return out
}
