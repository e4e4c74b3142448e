package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/penstock-project/penstock/cmd/internal/external/commands"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := commands.New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "penstock-external:", err)
		os.Exit(1)
	}
}
