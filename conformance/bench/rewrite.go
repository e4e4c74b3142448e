package main

import (
	"context"

	"github.com/penstock-project/penstock/conformance/bench/picks"
)

// measureRewrite measures what replacing the model of each request adds to picks, and what further
// InferenceModels do.
func measureRewrite(ctx context.Context, c config, out report) error {
	p, err := startPickers(ctx, c, picks.Ours, picks.RewriteOne, picks.RewriteMany)
	if err != nil {
		return err
	}
	defer p.close()
	for _, m := range []struct {
		name, with, without string
		size                int
	}{{"rewrite_100k", picks.RewriteOne, picks.Ours, 100 << 10},
		{"models_1000", picks.RewriteMany, picks.RewriteOne, 1 << 10}} {
		costs, err := p.compare(ctx, "prompts", m.size, m.with, m.without)
		if err != nil {
			return err
		}
		with, without := costs[m.with], costs[m.without]
		out(m.name, "", with.each()/without.each())
	}
	return nil
}
