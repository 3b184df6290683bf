package announce

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

var pod = Pod{UID: "u", Namespace: "a", Name: "web", IP: "10.244.0.2"}

func serve(t *testing.T, handle func(context.Context, Pod) error) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, handle) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWhoAnnouncesWaitsUntilItIsDone(t *testing.T) {
	var heard Pod
	serve(t, func(_ context.Context, said Pod) error {
		heard = said
		return nil
	})
	if err := Send(pod); err != nil || heard != pod {
		t.Error(heard, err)
	}
}

func TestANoIsHeardWithItsReason(t *testing.T) {
	serve(t, func(context.Context, Pod) error { return errors.New("the firewall is full") })
	if err := Send(pod); err == nil || !strings.Contains(err.Error(), "the firewall is full") {
		t.Error(err)
	}
}

func TestNonsenseOnOneConnectionIsNothingToTheOthers(t *testing.T) {
	serve(t, func(context.Context, Pod) error { return nil })
	if err := Send(pod); err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := connection.Write([]byte("]")); err != nil {
		t.Fatal(err)
	}
	if err := Send(pod); err != nil {
		t.Error(err)
	}
}

func TestWhoAnnouncesTooEarlyWaits(t *testing.T) {
	done := make(chan error, 1)
	go func() { done <- Send(pod) }()
	select {
	case err := <-done:
		t.Fatal("nobody was there and yet it ended: ", err)
	case <-time.After(2 * retryEvery):
	}
	serve(t, func(context.Context, Pod) error { return nil })
	if err := <-done; err != nil {
		t.Error(err)
	}
}
