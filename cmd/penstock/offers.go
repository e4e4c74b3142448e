package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/xds/admission/ports"
)

func (s *service) offered(ctx context.Context) (out []app.Offer, err error) {
	defer func() {
		if err != nil {
			for _, o := range out {
				if o.Picker != nil {
					_ = o.Picker.Close()
				}
			}
		}
	}()
	for _, text := range s.offers {
		name, port, alone := strings.Cut(text, "=")
		pool, ok := objectid.ParsePool(name)
		if !ok {
			return out,
				fmt.Errorf("--offer %q: write NAMESPACE/NAME=PORT, or NAMESPACE/NAME for a pool in ParentMode", text)
		}
		if slices.ContainsFunc(out, func(o app.Offer) bool { return o.Pool == pool }) {
			return out, fmt.Errorf("--offer %q: the pool has another --offer; remove one of them", text)
		}
		offer := app.Offer{Pool: pool}
		if alone {
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return out, fmt.Errorf("--offer %q: write a port from 0 to 65535", text)
			}
			if !s.secure.openPicker && (s.fleet || s.secure.cert != "") {
				return out, errors.New("--offer with a port requires --picker-open: without it, the picker accepts " +
					"picks from the Gateways' own proxies only")
			}
			host, _, err := net.SplitHostPort(s.picker)
			if err != nil {
				return out, fmt.Errorf("--picker %q: %w", s.picker, err)
			}
			offer.Picker, err = listen(ctx, s.sockets, ports.Picker, "--offer", net.JoinHostPort(host, port))
			if err != nil {
				return out, err
			}
		}
		out = append(out, offer)
	}
	return out, nil
}
