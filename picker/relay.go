package picker

import (
	"context"

	"github.com/penstock-project/penstock/picker/extproc"
)

func (p *Picker) relay(ctx context.Context, pool *pool, r *extproc.Request) (extproc.Answer, decision) {
	return refusal(503, ReasonRelay, "relay not wired"), decision{result: ReasonRelay}
}
