//! Speed and accuracy as ratios.
