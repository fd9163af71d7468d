// SPDX-License-Identifier: GPL-2.0-only OR MIT
//
// turnstile-exporter: serves the metrics of this host's GPUs and vGPUs to Prometheus.
#include <fmt/format.h>
#include <prometheus/exposer.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

#include "collector.h"

namespace turnstile_smi {
namespace {

// Two scrapes at once are enough: a Prometheus, and somebody who looks.
constexpr size_t kServerThreads = 2;

constexpr char kFooter[] =
    "Exit status: 0 it was asked to end (SIGINT, SIGTERM), 1 it cannot listen there, 2 wrong use.";

struct CommandLine {
  std::string listen = "127.0.0.1:9836";
  std::string root;
};

// CLI11's check: "" when `text` is HOST:PORT, [IPv6]:PORT or :PORT.
std::string CheckAddress(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  const std::string host = text.substr(0, colon);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos;
  const bool bare_v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  if (!digits || std::stoi(port) < 1 || std::stoi(port) > 65535 || bare_v6) {
    return fmt::format("'{}' is no address: HOST:PORT, [IPv6]:PORT or :PORT, port 1 to 65535",
                       text);
  }
  return "";
}

// Serves until SIGINT or SIGTERM.
int Serve(const CommandLine& command) {
  // Blocked before the server starts its threads, which inherit it: they come to sigwait() only.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  // The server takes a lone port as one of all addresses.
  const bool all = command.listen.starts_with(':');
  const std::string address = all ? command.listen.substr(1) : command.listen;
  const auto collector = std::make_shared<HostCollector>(Files(command.root));
  std::unique_ptr<prometheus::Exposer> exposer;
  try {
    exposer = std::make_unique<prometheus::Exposer>(address, kServerThreads);
  } catch (const std::exception&) {  // its text names neither address nor cause
    fmt::print(stderr,
               "turnstile-exporter: cannot listen on {}: the port is taken, or the address is not "
               "one of this host\n",
               command.listen);
    return 1;
  }
  exposer->RegisterCollectable(collector);
  fmt::print(stderr, "turnstile-exporter: http://{}/metrics\n", command.listen);

  int signal = 0;
  sigwait(&ends, &signal);
  return 0;
}

int Main(int argc, char** argv) {
  CommandLine command;
  CLI::App app("Serves the metrics of this host's GPUs and vGPUs to Prometheus.",
               "turnstile-exporter");
  app.add_option("--listen", command.listen,
                 "HOST:PORT; 127.0.0.1:9836. :PORT is every address of this host")
      ->type_name("ADDRESS")
      ->check(CheckAddress);
  app.add_option("--root", command.root, "look for /sys and /proc below this folder")
      ->type_name("DIR")
      ->check(CLI::ExistingDirectory);
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "turnstile-exporter: {}\n", error.what());
    return 2;
  }
  return Serve(command);
}

}  // namespace
}  // namespace turnstile_smi

int main(int argc, char** argv) { return turnstile_smi::Main(argc, argv); }
