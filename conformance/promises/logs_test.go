//go:build lab && linux

package promises

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func logReports(p place) {
	gateway, own := "gateway="+p.Namespace+"/gw", "fleet="+p.Namespace+"/"+fleet
	p.apply(plainGateway)
	p.programmed("gw")
	all := p.processes()
	p.logged(all, "fleet created", own)
	p.logged(all, "proxy connected", gateway, "node="+fleet)
	p.logged(all, "gateway programmed", gateway)
	p.fleetIs(small + "replicas: 1, concurrency: 1")
	p.logged(all, "fleet updated", own)
	p.logged(all, "proxy disconnected", gateway, "node="+fleet)
	p.logged(all[:1], "leading")
	p.logged(all[1:], "another process leads", "leader="+all[0].Name)
	p.logged(all[:1], "serving", "ads=")
	p.logged(all[1:], "serving", "ads=")
}

func (p place) logged(processes []corev1.Pod, texts ...string) {
	p.Helper()
	p.Until(fmt.Sprintf("a line with %q", texts), func(ctx context.Context) error {
		var all []string
		for _, process := range processes {
			log, err := p.PodLog(ctx, system, process.Name, "", false)
			if err != nil {
				return err
			}
			for line := range strings.Lines(log) {
				if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
					return nil
				}
			}
			all = append(all, log)
		}
		return fmt.Errorf("got\n%s\nwant a line with %q", strings.Join(all, "\n"), texts)
	})
}
