package delivery

import (
	"context"
	"log/slog"

	"github.com/penstock-project/penstock/discovery/status"
)

// Reports puts the reports of translation on the board.
type Reports struct {
	Board   *status.Board
	Log     *slog.Logger
	OnPanic func(row string, value any, stack []byte)
}

// Steps implements Part.
func (r Reports) Steps() []Step { return []Step{{Report, r.report}} }

func (r Reports) report(_ context.Context, c *Change) {
	if c.Output.Err != nil {
		r.Log.Error("a resource could not be made; proxies keep its last version", "rev", c.Revision, "error",
			c.Output.Err)
	}
	for _, p := range c.Output.Panics {
		r.OnPanic(p.Row, p.Value, p.Stack)
	}
	if c.Output.FailingChanged {
		r.Board.Replace(status.Internal, c.Output.Failing...)
	}
	r.Board.Remove(status.Translation, c.Output.ReportsGone...)
	r.Board.Set(status.Translation, c.Output.Reports...)
}
