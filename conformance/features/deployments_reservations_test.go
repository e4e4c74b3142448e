package features

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/engine/devices"
)

func TestSwap_ModelsWithoutAcceleratorsTakeTurnsInMainMemory(t *testing.T) {
	t.Parallel()
	s, host, models := newSite(t), devices.ThisHost(), []string{"cpu-a", "cpu-b", "cpu-c"}
	share := host.Memory * 6 / 10
	s.deploy(with(models...), swap("MEMORY", fmt.Sprintf("%dMi", share)))
	s.logged(fmt.Sprintf("is Pending: it needs %d MiB of memory, and %d of %d are free: default/cpu-", share,
		host.Memory-share, host.Memory))
	s.reports("spec.resources.memory: it needs")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 6 {
			model := models[i%len(models)]
			if by, err := s.asks(model, "hello", time.Minute); err != nil || by != model+"-0" {
				t.Errorf("request %d for %s, by %q: %v", i, model, by, err)
			}
		}
	}()
	started := map[int]string{}
	for most := 0; ; pause(t.Context(), time.Millisecond) {
		for name, pid := range engines(t, s.state) {
			if strings.Contains(name, "cpu-") && pid > 0 {
				started[pid] = name
			}
		}
		var runs []string
		for pid, name := range started {
			if syscall.Kill(pid, 0) == nil {
				runs = append(runs, name)
			}
		}
		if most = max(most, len(runs)); len(runs) > 1 {
			t.Fatalf("%v run at a time, want one", runs)
		}
		select {
		case <-done:
			if len(started) < 6 || most != 1 {
				t.Errorf("servers started %d times, %d at a time; want a swap for each request", len(started), most)
			}
			s.reports("needs its room; a request starts it")
			return
		default:
		}
	}
}

func TestDeployment_MistakesAboutReservationsNameTheField(t *testing.T) {
	t.Parallel()
	s, host := newSite(t), devices.ThisHost()
	s.deploy(with("reservations"), swap("MEMORY", fmt.Sprintf("%dMi", host.Memory*3/2)))
	for _, text := range []string{
		fmt.Sprintf("ModelDeployment default/large spec.resources.memory: it needs %d MiB of memory, and Penstock may "+
			"use %d", host.Memory*3/2, host.Memory),
		fmt.Sprintf("write %dMi at most, or remove it", host.Memory),
		"ModelDeployment default/negative spec.resources.cpu: write a number of cores above 0, such as 4 or 500m",
		`ModelDeployment default/nonsense spec.resources.memory: has an invalid format: "16GB"; write a quantity`,
		`ModelDeployment default/spreads spec.placement.strategy: must be one of Pack, Spread, is "Sprad"; write Spread`,
	} {
		s.reports(text)
	}
}
